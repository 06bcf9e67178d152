// Batches heartbeats: all that arrive in one turn of the event loop are written by one statement and one commit. Each caller waits until
// its own heartbeat is written.

import type { Sql } from '@brokkr/postgres'
import * as agents from '../store/agents.ts'

export interface HeartbeatRow {
  readonly agent_id: string
  readonly k8s_reachable: boolean | null
  readonly k8s_api_latency_ms: number | null
  readonly agent_version: string | null
  readonly facts: string | null
}
/** null if the agent does not exist. */
export type HeartbeatResult = { readonly is_connected: boolean; readonly has_news: boolean } | null

const batchMax = 100

interface PendingHeartbeat extends PromiseWithResolvers<HeartbeatResult> {
  heartbeat: HeartbeatRow
}
/** One batch per database handle. */
const pendingBySql = new WeakMap<Sql, Map<string, PendingHeartbeat>>()

export async function writeHeartbeat(sql: Sql, heartbeat: HeartbeatRow): Promise<HeartbeatResult> {
  let pending = pendingBySql.get(sql)
  if (pending === undefined) pendingBySql.set(sql, (pending = new Map()))
  const earlier = pending.get(heartbeat.agent_id)
  if (earlier !== undefined) {
    earlier.heartbeat = mergeHeartbeats(earlier.heartbeat, heartbeat)
    return earlier.promise
  }
  const entry: PendingHeartbeat = { ...Promise.withResolvers<HeartbeatResult>(), heartbeat }
  pending.set(heartbeat.agent_id, entry)
  if (pending.size === 1) setImmediate(flush, sql)
  return entry.promise
}

/** The result of writing two heartbeats of one agent in order. */
const mergeHeartbeats = (first: HeartbeatRow, second: HeartbeatRow): HeartbeatRow => ({
  agent_id: first.agent_id,
  ...(second.k8s_reachable === null ? toClusterFields(first) : toClusterFields(second)),
  agent_version: second.agent_version ?? first.agent_version,
  facts: second.facts ?? first.facts,
})
const toClusterFields = ({ k8s_reachable, k8s_api_latency_ms }: HeartbeatRow) => ({ k8s_reachable, k8s_api_latency_ms })

function flush(sql: Sql): void {
  const entries = [...(pendingBySql.get(sql)?.values() ?? [])]
  pendingBySql.get(sql)?.clear()
  for (let start = 0; start < entries.length; start += batchMax) void writeBatch(sql, entries.slice(start, start + batchMax))
}

/** Never rejects: the outcome goes to the promise of each heartbeat. */
async function writeBatch(sql: Sql, batch: readonly PendingHeartbeat[]): Promise<void> {
  // Heartbeats that the batch did not write are written one by one, so that one locked or failing row does not affect the others.
  const results =
    batch.length === 1 ? new Map<string, NonNullable<HeartbeatResult>>() : await writeInOneStatement(sql, batch).catch(() => new Map())
  for (const { heartbeat, resolve, reject } of batch) {
    const entry = results.get(heartbeat.agent_id)
    if (entry !== undefined) resolve(entry)
    else agents.recordHeartbeat(sql, heartbeat).then(resolve, reject)
  }
}

async function writeInOneStatement(sql: Sql, batch: readonly PendingHeartbeat[]): Promise<Map<string, NonNullable<HeartbeatResult>>> {
  const column = <K extends keyof HeartbeatRow>(key: K): HeartbeatRow[K][] => batch.map(({ heartbeat }) => heartbeat[key])
  const rows = await agents.recordHeartbeats(sql, {
    agent_ids: column('agent_id'),
    k8s_reachable: column('k8s_reachable'),
    k8s_api_latency_ms: column('k8s_api_latency_ms'),
    agent_versions: column('agent_version'),
    facts: column('facts'),
  })
  return new Map(rows.map((row) => [row.agent_id, row]))
}
