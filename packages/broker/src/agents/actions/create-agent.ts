// Creates an agent with its PAK, labels, annotations, registrations and matching targets in one transaction.
import type { Agent } from '@brokkr/contract/agents/agent.ts'
import { generatePak, type PakForm } from '@brokkr/contract/auth/pak.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { requireLiveGenerators } from '../../generators/actions/require-live-generators.ts'
import { requireAnnotation, requireLabel, requireName, requireStatus } from '../../rules/names.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import { enqueueDeliveries } from '../../webhooks/delivery/enqueue.ts'
import { agentRegistered } from '../../webhooks/delivery/rules/webhook-events.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import * as agents from '../store/agents.ts'
import { insertAgent, targetNewAgent } from './insert-agent.ts'

export interface NewAgent {
  readonly name: string
  readonly cluster_name: string
  readonly generator_ids?: readonly string[] | undefined
  readonly labels?: readonly string[] | undefined
  readonly annotations?: Readonly<Record<string, string>> | undefined
  readonly status?: string | undefined
  readonly actor: Actor
}

export async function createAgent(
  deps: { sql: Sql; subscriptionCache: SubscriptionCache; wakeFeed: () => void; pakForm?: PakForm },
  input: NewAgent,
): Promise<{ agent: Agent; initial_pak: string }> {
  const newPak = await generatePak(deps.pakForm)
  const row = {
    id: uuid7(),
    name: requireName(input.name, 'name', 'invalid_agent'),
    cluster_name: requireName(input.cluster_name, 'cluster_name', 'invalid_agent'),
    status: requireStatus(input.status ?? 'INACTIVE'),
    pak_hash: newPak.hash,
    pak_short: newPak.short,
    invited_generator_ids: [...new Set(input.generator_ids ?? [])],
  }
  const labels = [...new Set((input.labels ?? []).map(requireLabel))]
  const annotations = input.annotations ?? {}
  for (const [key, value] of Object.entries(annotations)) requireAnnotation(key, value)
  const agent = await deps.sql.begin(async (sql) => {
    await requireLiveGenerators(sql, row.invited_generator_ids)
    await insertAgent(sql, row, { labels, annotations, generatorIds: row.invited_generator_ids })
    await recordAuditEntry(sql, {
      actor: input.actor,
      action: 'agent.created',
      resource: { type: 'agent', id: row.id },
      details: { name: row.name, cluster_name: row.cluster_name },
    })
    const agentRow = (await agents.get(sql, { id: row.id }))!
    await enqueueDeliveries(sql, deps.subscriptionCache, [agentRegistered(agentRow)])
    return sql.commitWith(
      (tx) => [targetNewAgent(tx, row.id, { labels, annotations })],
      () => agentRow,
    )
  })
  deps.wakeFeed()
  return { agent, initial_pak: newPak.pak }
}
