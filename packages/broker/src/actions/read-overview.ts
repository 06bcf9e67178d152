// One screen of counts, read at most once a second per process: a wall of screens costs no more than one.
import type { Overview } from '@brokkr/contract/fleet.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Sql } from '../store/sql.ts'
import * as stackSummary from '../store/stack-summary.ts'
import * as webhookDeliveries from '../store/webhook-deliveries.ts'

export type ReadOverview = () => Promise<Overview>
const keptMs = 1000

export function createOverviewReader(deps: { sql: Sql; clock: Clock }): ReadOverview {
  let kept: { readonly atMs: number; readonly value: Promise<Overview> } | null = null
  return () => {
    const nowMs = deps.clock.monotonicMs()
    if (kept !== null && nowMs - kept.atMs < keptMs) return kept.value
    const reading = { atMs: nowMs, value: readOverview(deps.sql) }
    // A failure is told to those who wait for it, and the next one asks again.
    reading.value.catch(() => {
      if (kept === reading) kept = null
    })
    kept = reading
    return reading.value
  }
}

/** Work orders, holds and approvals have no tables yet: there are none. */
async function readOverview(sql: Sql): Promise<Overview> {
  const [counts, backlog] = await Promise.all([stackSummary.overview(sql, {}), webhookDeliveries.backlog(sql, {})])
  const { at, agents, never, silent, behind, oldest_seen_at, prune_held } = counts
  const { pending, failed, dead_24h, oldest_pending_seconds } = backlog
  const { stacks, healthy, degraded, failing, unknown, drifted } = counts
  return {
    at,
    fleet: { total: agents, current: agents - never - silent - behind, behind, silent, never },
    stacks: { total: stacks, healthy, degraded, failing, unknown, drifted },
    holds: 0,
    decisions: { prune_held, agents_waiting: 0, approvals: 0 },
    deliveries: { pending, failed, dead_24h, oldest_pending_seconds },
    work_orders: { pending: 0, claimed: 0, retry_pending: 0 },
    oldest_seen_at,
  }
}
