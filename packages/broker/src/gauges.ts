// Gauges that are read from the database: counted when somebody looks, at most once in a while, and never in the way of anybody.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import * as figures from './store/figures.ts'
import type { Sql } from './store/sql.ts'
import * as webhookDeliveries from './store/webhook-deliveries.ts'

const keptMs = 10_000
/** A fleet may have more agents than a scrape should have lines. */
const agentsMax = 1_000

export function keepGauges(deps: { sql: Sql; clock: Clock; log: Log; metrics: Metrics }, options: { version: string }): void {
  const { metrics } = deps
  const activeAgents = metrics.gauge('brokkr_active_agents', 'Agents with status ACTIVE')
  const stacks = metrics.gauge('brokkr_stacks_total', 'Stacks')
  const objects = metrics.gauge('brokkr_deployment_objects_total', 'Deployment objects')
  const ages = metrics.gauge('brokkr_agent_heartbeat_age_seconds', 'Time since the last heartbeat of an agent', ['agent_id', 'agent_name'])
  const backlog = metrics.gauge('brokkr_webhook_backlog', 'Webhook deliveries that have not ended', ['state'])
  const oldest = metrics.gauge('brokkr_webhook_oldest_pending_seconds', 'Age of the oldest webhook delivery that waits to be sent')
  metrics.gauge('brokkr_build_info', 'Version of this broker', ['version']).set({ version: options.version }, 1)
  const read = async () => {
    const [counts, heartbeats, waiting] = await Promise.all([
      figures.counts(deps.sql, {}),
      figures.heartbeatAges(deps.sql, { limit: agentsMax }),
      webhookDeliveries.backlog(deps.sql, {}),
    ])
    for (const state of ['pending', 'acquired', 'failed'] as const) backlog.set({ state }, waiting[state])
    oldest.set(waiting.oldest_pending_seconds ?? 0)
    activeAgents.set(counts.active_agents)
    stacks.set(counts.stacks)
    objects.set(counts.deployment_objects)
    ages.reset()
    for (const { agent_id, agent_name, age_seconds } of heartbeats) ages.set({ agent_id, agent_name }, age_seconds)
  }
  let readMs = Number.NEGATIVE_INFINITY
  metrics.beforeScrape(async () => {
    if (deps.clock.monotonicMs() - readMs < keptMs) return
    readMs = deps.clock.monotonicMs()
    // A scrape is worth most when the database is away: what was counted last stays.
    await read().catch((error: unknown) => deps.log.debug('gauges could not be read', { error: error as Error }))
  })
}
