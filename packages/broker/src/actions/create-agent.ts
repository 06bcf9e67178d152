// Creates an agent with its key, labels, annotations and registrations, and aims at it whatever matches: one transaction.
import type { Agent } from '@brokkr/contract/agent.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import { makePak } from '@brokkr/contract/pak.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { requireAnnotation, requireLabel, requireName, requireStatus } from '../domain/names.ts'
import { uuid7 } from '../domain/uuid7.ts'
import { agentRegistered } from '../domain/webhook-events.ts'
import * as agents from '../store/agents.ts'
import * as annotationsStore from '../store/annotations.ts'
import * as generators from '../store/generators.ts'
import * as labelsStore from '../store/labels.ts'
import * as registrations from '../store/registrations.ts'
import type { Sql } from '../store/sql.ts'
import { enqueue } from '../webhooks/enqueue.ts'
import type { Subscriptions } from '../webhooks/subscriptions.ts'
import { lockTargeting, retarget } from './retarget.ts'

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
  const annotations = Object.entries(input.annotations ?? {})
  for (const [key, value] of annotations) requireAnnotation(key, value)
  const agent = await deps.sql.begin(async (sql) => {
    await lockTargeting(sql)
    await agents.insert(sql, row)
    await register(sql, row.id, row.invited_generator_ids)
    await labelsStore.addManyToAgent(sql, { agent_id: row.id, labels })
    await annotationsStore.addManyToAgent(sql, {
      agent_id: row.id,
      keys: annotations.map(([key]) => key),
      values: annotations.map(([, value]) => value),
    })
    await retarget(sql, { agentId: row.id })
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

/** Every agent takes the system generator's stacks; the others are those the caller named, all of which must exist. */
async function register(sql: Sql, agentId: string, named: string[]): Promise<void> {
  const live = await generators.liveAmong(sql, { ids: named })
  if (live.length < named.length) throw new ApiError('invalid_generator_id', 'generator_ids names a generator that does not exist')
  const system = await generators.system(sql, {})
  await registrations.insertMany(sql, { agent_id: agentId, generator_ids: system === null ? named : [...named, system.id] })
}
