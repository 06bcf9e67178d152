// Counts for the overview, read at most once a second per process, so that many open consoles cost one read.
import type { Overview } from '@brokkr/contract/agents/fleet.ts'
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import * as webhookDeliveries from '../../webhooks/delivery/store/webhook-deliveries.ts'
import * as workOrders from '../../work-orders/store/work-orders.ts'
import * as stackSummary from '../store/stack-summary.ts'

export type ReadOverview = () => Promise<Overview>
const keptMs = 1000

export function createOverviewReader(deps: { sql: Sql; clock: Clock }): ReadOverview {
  let cached: { readonly atMs: number; readonly value: Promise<Overview> } | null = null
  return () => {
    const nowMs = deps.clock.monotonicMs()
    if (cached !== null && nowMs - cached.atMs < keptMs) return cached.value
    const reading = { atMs: nowMs, value: readOverview(deps.sql) }
    // A failed read rejects the callers that wait for it; the next call reads again.
    reading.value.catch(() => {
      if (cached === reading) cached = null
    })
    cached = reading
    return reading.value
  }
}

/** Waiting agents and approvals do not exist yet; null means that no count is available. */
async function readOverview(sql: Sql): Promise<Overview> {
  const [counts, backlog, work_orders] = await Promise.all([
    stackSummary.overview(sql, {}),
    webhookDeliveries.backlog(sql, {}),
    workOrders.counts(sql, {}),
  ])
  const { at, agents, never, silent, behind, oldest_seen_at, prune_held } = counts
  const { pending, failed, dead_24h, oldest_pending_seconds } = backlog
  const { stacks, healthy, degraded, failing, unknown, drifted } = counts
  return {
    at,
    fleet: { total: agents, current: agents - never - silent - behind, behind, silent, never },
    stacks: { total: stacks, healthy, degraded, failing, unknown, drifted },
    holds: counts.holds,
    decisions: { prune_held, agents_waiting: null, approvals: null },
    deliveries: { pending, failed, dead_24h, oldest_pending_seconds },
    work_orders,
    oldest_seen_at,
  }
}
