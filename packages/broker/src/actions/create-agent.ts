// Creates an agent with its key, labels, annotations and registrations, and aims at it whatever matches: one transaction.
import type { Agent } from '@brokkr/contract/agent.ts'
import { makePak } from '@brokkr/contract/pak.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { requireAnnotation, requireLabel, requireName, requireStatus } from '../domain/names.ts'
import { uuid7 } from '../domain/uuid7.ts'
import { agentRegistered } from '../domain/webhook-events.ts'
import * as agents from '../store/agents.ts'
import type { Sql } from '../store/sql.ts'
import { enqueue } from '../webhooks/enqueue.ts'
import type { Subscriptions } from '../webhooks/subscriptions.ts'
import { insertAgent } from './insert-agent.ts'
import { requireLiveGenerators } from './require-live-generators.ts'
import { lockTargeting } from './retarget.ts'

export interface NewAgent {
  readonly name: string
  readonly cluster_name: string
  readonly generator_ids?: readonly string[] | undefined
  readonly labels?: readonly string[] | undefined
  readonly annotations?: Readonly<Record<string, string>> | undefined
  readonly status?: string | undefined
  readonly by: Actor
}

export async function createAgent(
  deps: { sql: Sql; hooks: Subscriptions; wakeFeed: () => void },
  input: NewAgent,
): Promise<{ agent: Agent; initial_pak: string }> {
  const made = await makePak()
  const row = {
    id: uuid7(),
    name: requireName(input.name, 'name', 'invalid_agent'),
    cluster_name: requireName(input.cluster_name, 'cluster_name', 'invalid_agent'),
    status: requireStatus(input.status ?? 'INACTIVE'),
    pak_hash: made.hash,
    pak_short: made.short,
    invited_generator_ids: [...new Set(input.generator_ids ?? [])],
  }
  const labels = [...new Set((input.labels ?? []).map(requireLabel))]
  const annotations = input.annotations ?? {}
  for (const [key, value] of Object.entries(annotations)) requireAnnotation(key, value)
  const agent = await deps.sql.begin(async (sql) => {
    await lockTargeting(sql)
    await requireLiveGenerators(sql, row.invited_generator_ids)
    await insertAgent(sql, row, { labels, annotations, generatorIds: row.invited_generator_ids })
    await recordDeed(sql, {
      by: input.by,
      action: 'agent.created',
      on: { type: 'agent', id: row.id },
      details: { name: row.name, cluster_name: row.cluster_name },
    })
    const inserted = (await agents.get(sql, { id: row.id }))!
    await enqueue(sql, deps.hooks, [agentRegistered(inserted)])
    return inserted
  })
  deps.wakeFeed()
  return { agent, initial_pak: made.pak }
}
