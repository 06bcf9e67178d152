// Records a heartbeat before the response is sent, so that a later read shows it.
import type { Heartbeat } from '@brokkr/contract/agents/agent.ts'
import type { Sql } from '@brokkr/postgres'
import { enqueueDeliveries } from '../../webhooks/delivery/enqueue.ts'
import { agentConnected } from '../../webhooks/delivery/rules/webhook-events.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import * as agents from '../store/agents.ts'
import { writeHeartbeat } from './heartbeat-batch.ts'

type Deps = { sql: Sql; subscriptionCache: SubscriptionCache; wakeFeed: () => void; feed?: { hasStream(agentId: string): boolean } }

export async function recordHeartbeat(deps: Deps, input: { agentId: string; heartbeat: Heartbeat }): Promise<void> {
  const { agentId: agent_id, heartbeat } = input
  const facts = { agent_version: heartbeat.agent_version ?? null, facts: factsText(heartbeat.facts) }
  const clusterState = { k8s_reachable: heartbeat.k8s_reachable ?? null, k8s_api_latency_ms: heartbeat.k8s_api_latency_ms ?? null }
  const result = await writeHeartbeat(deps.sql, { agent_id, ...clusterState, ...facts })
  if (result === null) return
  // Reconnects and changed facts are rare; other heartbeats do not write the agent row.
  if (!result.is_connected) await connect(deps, agent_id)
  if (result.has_news) await agents.setFacts(deps.sql, { agent_id, ...facts })
}

/** If several broker processes see the agent reconnect, one of them makes the transition and enqueues the event. */
async function connect(deps: Deps, agentId: string): Promise<void> {
  const hasConnected = await deps.sql.begin(async (sql) => {
    const connection = await agents.markConnected(sql, { agent_id: agentId })
    if (connection !== null) {
      // A stream of this process may not have a session row yet; streams of other processes are read from their session rows.
      const transport = connection.has_stream || deps.feed?.hasStream(agentId) === true ? 'stream' : 'rest'
      await enqueueDeliveries(sql, deps.subscriptionCache, [agentConnected(connection, transport)])
    }
    return connection !== null
  })
  if (hasConnected) deps.wakeFeed()
}

const factsBytesMax = 16 * 1024

/** A heartbeat is never rejected: facts above the limit are ignored. */
function factsText(facts: Heartbeat['facts']): string | null {
  if (facts === null || facts === undefined) return null
  const text = JSON.stringify(facts)
  return Buffer.byteLength(text) > factsBytesMax ? null : text
}
