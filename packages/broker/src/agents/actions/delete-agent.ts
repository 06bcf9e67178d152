// Deletes an agent: its PAK becomes invalid, its streams close, its targets, labels, annotations and registrations are deleted and its
// events are marked deleted. Work orders it holds become pending again. Nothing is removed in its cluster. Deleting an unknown agent succeeds.
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import * as flows from '../../flows/store/flows.ts'
import * as registrations from '../../generators/store/registrations.ts'
import * as agentStackInventory from '../../inventory/store.ts'
import * as agentStackStatus from '../../reports/store/agent-stack-status.ts'
import { lockAgent } from '../../targeting/actions/retarget.ts'
import * as agentTargets from '../../targeting/store/agent-targets.ts'
import { enqueueDeliveries } from '../../webhooks/delivery/enqueue.ts'
import { agentDeregistered } from '../../webhooks/delivery/rules/webhook-events.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import * as workOrderClaims from '../../work-orders/store/work-order-claims.ts'
import * as agents from '../store/agents.ts'

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
