// An agent is alive. Written before the answer, so that whoever reads next sees it.
import type { Heartbeat } from '@brokkr/contract/agent.ts'
import * as agents from '../store/agents.ts'
import type { Sql } from '../store/sql.ts'

export async function recordHeartbeat(deps: { sql: Sql }, input: { agentId: string; heartbeat: Heartbeat }): Promise<void> {
  const { k8s_reachable, k8s_api_latency_ms, agent_version, facts } = input.heartbeat
  await agents.recordHeartbeat(deps.sql, {
    agent_id: input.agentId,
    k8s_reachable: k8s_reachable ?? null,
    k8s_api_latency_ms: k8s_api_latency_ms ?? null,
  })
  await agents.markConnected(deps.sql, { agent_id: input.agentId, agent_version: agent_version ?? null, facts: factsText(facts) })
}

const factsBytesMax = 16 * 1024

/** Nothing of a heartbeat is refused: what is too large counts as not sent. */
function factsText(facts: Heartbeat['facts']): string | null {
  if (facts === null || facts === undefined) return null
  const text = JSON.stringify(facts)
  return Buffer.byteLength(text) > factsBytesMax ? null : text
}
