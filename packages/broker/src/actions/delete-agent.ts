// Deletes an agent: its key is dead and its streams close, its pairs, marks and registrations go, its history is marked
// deleted. Nothing is removed in its cluster. An agent that is not there counts as deleted.
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { agentDeregistered } from '../domain/webhook-events.ts'
import * as agentStackStatus from '../store/agent-stack-status.ts'
import * as agentTargets from '../store/agent-targets.ts'
import * as agents from '../store/agents.ts'
import type { Sql } from '../store/sql.ts'
import { enqueue } from '../webhooks/enqueue.ts'
import type { Subscriptions } from '../webhooks/subscriptions.ts'
import { lockTargeting } from './retarget.ts'

export async function deleteAgent(
  deps: { sql: Sql; hooks: Subscriptions; wakeFeed: () => void },
  input: { agentId: string; by: Actor },
): Promise<void> {
  const { agentId: id } = input
  await deps.sql.begin(async (sql) => {
    // The agent before the targeting lock, as whoever falls silent takes them.
    await agents.lock(sql, { id })
    await lockTargeting(sql)
    const gone = await agents.markDeleted(sql, { id })
    if (gone === null) return
    await agentTargets.forgetAgent(sql, { agent_id: id })
    // Ended pairs left removals to be done; nobody will do these.
    await agentStackStatus.forgetAgent(sql, { agent_id: id })
    await recordDeed(sql, { by: input.by, action: 'agent.deleted', on: { type: 'agent', id } })
    await enqueue(sql, deps.hooks, [agentDeregistered({ agent_id: id, ...gone })])
  })
  deps.wakeFeed()
}
