// An agent is alive. Written before the answer, so that whoever reads next sees it.
import type { Heartbeat } from '@brokkr/contract/agent.ts'
import { agentConnected } from '../domain/webhook-events.ts'
import * as agents from '../store/agents.ts'
import type { Sql } from '../store/sql.ts'
import { enqueue } from '../webhooks/enqueue.ts'
import type { Subscriptions } from '../webhooks/subscriptions.ts'
import { writeSign } from './gather-heartbeats.ts'

type Deps = { sql: Sql; hooks: Subscriptions; wakeFeed: () => void }

export async function recordHeartbeat(deps: Deps, input: { agentId: string; heartbeat: Heartbeat }): Promise<void> {
  const { agentId: agent_id, heartbeat } = input
  const news = { agent_version: heartbeat.agent_version ?? null, facts: factsText(heartbeat.facts) }
  const signs = { k8s_reachable: heartbeat.k8s_reachable ?? null, k8s_api_latency_ms: heartbeat.k8s_api_latency_ms ?? null }
  const seen = await writeSign(deps.sql, { agent_id, ...signs, ...news })
  if (seen === null) return
  // Both are rare; the row of the agent itself is left alone otherwise.
  if (!seen.is_connected) await connect(deps, agent_id)
  if (seen.has_news) await agents.setFacts(deps.sql, { agent_id, ...news })
}

/** Of many processes that see it come back one makes the transition, and tells of it. */
async function connect(deps: Deps, agentId: string): Promise<void> {
  const isOurs = await deps.sql.begin(async (sql) => {
    const connected = await agents.markConnected(sql, { agent_id: agentId })
    if (connected !== null) await enqueue(sql, deps.hooks, [agentConnected(connected, 'rest')])
    return connected !== null
  })
  if (isOurs) deps.wakeFeed()
}

const factsBytesMax = 16 * 1024

/** Nothing of a heartbeat is refused: what is too large counts as not sent. */
function factsText(facts: Heartbeat['facts']): string | null {
  if (facts === null || facts === undefined) return null
  const text = JSON.stringify(facts)
  return Buffer.byteLength(text) > factsBytesMax ? null : text
}
