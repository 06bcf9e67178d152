// Heartbeats that arrive together are written together: one statement and one commit for all of one turn of the event loop, where each
// would cost both. Each caller still waits until its own is written.
import * as agents from '../store/agents.ts'
import type { Sql } from '../store/sql.ts'

export interface Sign {
  readonly agent_id: string
  readonly k8s_reachable: boolean | null
  readonly k8s_api_latency_ms: number | null
  readonly agent_version: string | null
  readonly facts: string | null
}
/** Null: there is no such agent. */
export type Seen = { readonly is_connected: boolean; readonly has_news: boolean } | null

const batchMax = 100

interface Waiting extends PromiseWithResolvers<Seen> {
  sign: Sign
}
/** By database: those who share one share its round trips. */
const waitingOn = new WeakMap<Sql, Map<string, Waiting>>()

export async function writeSign(sql: Sql, sign: Sign): Promise<Seen> {
  let waiting = waitingOn.get(sql)
  if (waiting === undefined) waitingOn.set(sql, (waiting = new Map()))
  const earlier = waiting.get(sign.agent_id)
  if (earlier !== undefined) {
    earlier.sign = bothOf(earlier.sign, sign)
    return earlier.promise
  }
  const own: Waiting = { ...Promise.withResolvers<Seen>(), sign }
  waiting.set(sign.agent_id, own)
  if (waiting.size === 1) setImmediate(flush, sql)
  return own.promise
}

/** What two heartbeats of one agent leave behind, written one after the other. */
const bothOf = (first: Sign, second: Sign): Sign => ({
  agent_id: first.agent_id,
  ...(second.k8s_reachable === null ? clusterOf(first) : clusterOf(second)),
  agent_version: second.agent_version ?? first.agent_version,
  facts: second.facts ?? first.facts,
})
const clusterOf = ({ k8s_reachable, k8s_api_latency_ms }: Sign) => ({ k8s_reachable, k8s_api_latency_ms })

function flush(sql: Sql): void {
  const all = [...(waitingOn.get(sql)?.values() ?? [])]
  waitingOn.get(sql)?.clear()
  for (let at = 0; at < all.length; at += batchMax) void writeBatch(sql, all.slice(at, at + batchMax))
}

/** Never rejects: each of them tells its own caller. */
async function writeBatch(sql: Sql, batch: readonly Waiting[]): Promise<void> {
  // What a batch could not write, each tries for itself: nobody waits for another's lock, and nobody fails with another.
  const seen = batch.length === 1 ? new Map<string, NonNullable<Seen>>() : await writeTogether(sql, batch).catch(() => new Map())
  for (const { sign, resolve, reject } of batch) {
    const own = seen.get(sign.agent_id)
    if (own !== undefined) resolve(own)
    else agents.recordHeartbeat(sql, sign).then(resolve, reject)
  }
}

async function writeTogether(sql: Sql, batch: readonly Waiting[]): Promise<Map<string, NonNullable<Seen>>> {
  const of = <K extends keyof Sign>(key: K): Sign[K][] => batch.map(({ sign }) => sign[key])
  const rows = await agents.recordHeartbeats(sql, {
    agent_ids: of('agent_id'),
    k8s_reachable: of('k8s_reachable'),
    k8s_api_latency_ms: of('k8s_api_latency_ms'),
    agent_versions: of('agent_version'),
    facts: of('facts'),
  })
  return new Map(rows.map((row) => [row.agent_id, row]))
}
