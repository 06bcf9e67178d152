// Gauges read from the database on a scrape, at most every ten seconds. A failed read never fails the scrape.
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import * as webhookDeliveries from '../webhooks/delivery/store/webhook-deliveries.ts'
import * as workOrders from '../work-orders/store/work-orders.ts'
import * as figures from './store/figures.ts'

const maxAgeMs = 10_000
/** Limits the number of series per scrape in large fleets. */
const agentsMax = 1_000

export function registerGauges(deps: { sql: Sql; clock: Clock; log: Log; metrics: Metrics }, options: { version: string }): void {
  const { metrics } = deps
  const activeAgents = metrics.gauge('brokkr_active_agents', 'Number of agents with status ACTIVE')
  const stacks = metrics.gauge('brokkr_stacks_total', 'Number of stacks')
  const holds = metrics.gauge('brokkr_stack_holds', 'Number of stacks with a hold')
  const openPlans = metrics.gauge('brokkr_open_plans', 'Number of plans that have not expired')
  const objects = metrics.gauge('brokkr_deployment_objects_total', 'Number of deployment objects')
  const ages = metrics.gauge('brokkr_agent_heartbeat_age_seconds', 'Seconds since the last heartbeat of an agent', [
    'agent_id',
    'agent_name',
  ])
  const backlog = metrics.gauge('brokkr_webhook_backlog', 'Number of unfinished webhook deliveries by state', ['state'])
  const oldestPending = metrics.gauge('brokkr_webhook_oldest_pending_seconds', 'Age in seconds of the oldest pending webhook delivery')
  const orders = metrics.gauge('brokkr_work_orders', 'Number of open work orders by status', ['status'])
  metrics.gauge('brokkr_build_info', 'Version of this broker', ['version']).set({ version: options.version }, 1)
  const read = async () => {
    const [counts, heartbeats, deliveryBacklog, orderCounts] = await Promise.all([
      figures.counts(deps.sql, {}),
      figures.heartbeatAges(deps.sql, { limit: agentsMax }),
      webhookDeliveries.backlog(deps.sql, {}),
      workOrders.counts(deps.sql, {}),
    ])
    for (const status of ['pending', 'claimed', 'retry_pending'] as const) orders.set({ status: status.toUpperCase() }, orderCounts[status])
    for (const state of ['pending', 'acquired', 'failed'] as const) backlog.set({ state }, deliveryBacklog[state])
    oldestPending.set(deliveryBacklog.oldest_pending_seconds ?? 0)
    activeAgents.set(counts.active_agents)
    stacks.set(counts.stacks)
    holds.set(counts.stack_holds)
    openPlans.set(counts.open_plans)
    objects.set(counts.deployment_objects)
    ages.reset()
    for (const { agent_id, agent_name, age_seconds } of heartbeats) ages.set({ agent_id, agent_name }, age_seconds)
  }
  let readMs = Number.NEGATIVE_INFINITY
  metrics.beforeScrape(async () => {
    if (deps.clock.monotonicMs() - readMs < maxAgeMs) return
    readMs = deps.clock.monotonicMs()
    // While the database is unavailable the scrape returns the previous values.
    await read().catch((error: unknown) => deps.log.debug('gauge read failed', { error: error as Error }))
  })
}
