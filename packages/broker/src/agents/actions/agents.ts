// Agents: create, update, delete.
import type { Agent } from '@brokkr/contract/agents/agent.ts'
import { generatePak, type PakForm } from '@brokkr/contract/auth/pak.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import * as flows from '../../flows/store/flows.ts'
import { requireLiveGenerators } from '../../generators/actions/generators.ts'
import * as generators from '../../generators/store/generators.ts'
import * as registrations from '../../generators/store/registrations.ts'
import * as agentStackInventory from '../../inventory/store.ts'
import * as agentStackStatus from '../../reports/store/agent-stack-status.ts'
import { changedFields, requireAnnotation, requireLabel, requireName, requireStatus } from '../../rules/names.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import { changeAgent, lockAgent } from '../../targeting/actions.ts'
import * as agentTargets from '../../targeting/store/agent-targets.ts'
import * as annotationsStore from '../../targeting/store/annotations.ts'
import * as labelsStore from '../../targeting/store/labels.ts'
import { enqueueDeliveries } from '../../webhooks/delivery/enqueue.ts'
import { agentDeregistered, agentRegistered } from '../../webhooks/delivery/rules/webhook-events.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import * as workOrderClaims from '../../work-orders/store/work-order-claims.ts'
import * as agents from '../store/agents.ts'

// Creates an agent with its PAK, labels, annotations, registrations and matching targets in one transaction.

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

// Inserts an agent with its labels, annotations and registrations. Shared by creating and joining; runs in the caller's transaction,
// which calls `targetNewAgent` last.

export interface AgentLabels {
  readonly labels: string[]
  readonly annotations: Readonly<Record<string, string>>
  /** Must be live. */
  readonly generatorIds: readonly string[]
}

export async function insertAgent(sql: Sql, row: Parameters<typeof agents.insert>[1], assigned: AgentLabels): Promise<void> {
  const agent_id = row.id
  await agents.insert(sql, row)
  // Every agent is registered with the system generator.
  const system = await generators.system(sql, {})
  const generator_ids = [...assigned.generatorIds, ...(system === null ? [] : [system.id])]
  await registrations.insertMany(sql, { agent_id, generator_ids })
  await labelsStore.addManyToAgent(sql, { agent_id, labels: assigned.labels })
  const annotations = Object.entries(assigned.annotations)
  const [keys, values] = [annotations.map(([key]) => key), annotations.map(([, value]) => value)]
  await annotationsStore.addManyToAgent(sql, { agent_id, keys, values })
}

/** An agent without labels and annotations matches no stack, so no targeting lock is needed. */
export async function targetNewAgent(sql: Sql, agentId: string, { labels, annotations }: Omit<AgentLabels, 'generatorIds'>): Promise<void> {
  if (labels.length === 0 && Object.keys(annotations).length === 0) return
  await changeAgent(sql, agentId, [], async () => undefined)
}

// Changes name, cluster or status of an agent; omitted fields stay unchanged.

export interface AgentChange {
  readonly agentId: string
  readonly name: string | undefined
  readonly cluster_name: string | undefined
  readonly status: string | undefined
  /** Throws if the agent changed after the caller read it. */
  readonly precondition: (row: { readonly updated_at: string }) => void
  readonly actor: Actor
}

export async function updateAgent(deps: { sql: Sql; wakeFeed: () => void }, input: AgentChange): Promise<Agent> {
  const { agentId: id, name, cluster_name, status } = input
  const agent = await deps.sql.begin(async (sql) => {
    const before = await agents.lock(sql, { id })
    if (before === null) throw new ApiError('agent_not_found', 'no such agent')
    input.precondition(before)
    const after = {
      name: name === undefined ? before.name : requireName(name, 'name', 'invalid_agent'),
      cluster_name: cluster_name === undefined ? before.cluster_name : requireName(cluster_name, 'cluster_name', 'invalid_agent'),
      status: status === undefined ? before.status : requireStatus(status),
    }
    const fields = changedFields(before, after)
    if (fields.length > 0) {
      await agents.update(sql, { id, ...after })
      await recordAuditEntry(sql, { actor: input.actor, action: 'agent.updated', resource: { type: 'agent', id }, details: { fields } })
    }
    return agents.get(sql, { id })
  })
  deps.wakeFeed()
  return agent!
}

/** Deletes an agent: its PAK becomes invalid, its streams close, its targets, labels, annotations and registrations are deleted and its
 * events are marked deleted. Work orders it holds become pending again. Nothing is removed in its cluster. Deleting an unknown agent
 * succeeds. */
export async function deleteAgent(
  deps: { sql: Sql; subscriptionCache: SubscriptionCache; wakeFeed: () => void },
  input: { agentId: string; actor: Actor },
): Promise<void> {
  const { agentId: id } = input
  await deps.sql.begin(async (sql) => {
    await lockAgent(sql, id)
    // Locks registrations before the agent row, in the same order as deleting a generator does.
    await registrations.removeAllOfAgent(sql, { owner_id: id })
    await agents.lockForDeletion(sql, { id })
    const deletion = await agents.markDeleted(sql, { id })
    if (deletion === null) return
    await agentTargets.forgetAgent(sql, { agent_id: id })
    // Removals that the agent still had to do are dropped with it.
    await agentStackStatus.forgetAgent(sql, { agent_id: id })
    await agentStackInventory.forgetAgent(sql, { agent_id: id })
    await flows.forgetAgent(sql, { agent_id: id })
    await workOrderClaims.releaseOfAgent(sql, { agent_id: id })
    await recordAuditEntry(sql, { actor: input.actor, action: 'agent.deleted', resource: { type: 'agent', id } })
    await enqueueDeliveries(sql, deps.subscriptionCache, [agentDeregistered({ agent_id: id, ...deletion })])
  })
  deps.wakeFeed()
}

// Treats a deleted agent, whose row still exists, like an unknown one.

/** Call it under the targeting lock, which deleting an agent takes too. `constraint` is the foreign key that an unknown id would violate. */
export async function requireLiveAgent(sql: Sql, id: string, constraint: string): Promise<void> {
  if ((await agents.get(sql, { id })) !== null) return
  throw new ApiError('foreign_key_violation', `a referenced resource does not exist: constraint ${constraint}`, {
    details: { constraint },
  })
}
