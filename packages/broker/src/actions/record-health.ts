// Stores how revisions are doing as an agent sees them: all of a report or nothing. An older check never replaces a newer one.
import { ApiError } from '@brokkr/contract/error.ts'
import { type HealthReport, HealthStatus } from '@brokkr/contract/health.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Actor } from '../domain/actor.ts'
import { healthChanged } from '../domain/webhook-events.ts'
import * as agentTargets from '../store/agent-targets.ts'
import * as agents from '../store/agents.ts'
import * as deploymentHealth from '../store/deployment-health.ts'
import * as deploymentObjects from '../store/deployment-objects.ts'
import type { Sql } from '../store/sql.ts'
import { enqueue, isWanted } from '../webhooks/enqueue.ts'
import type { Subscriptions } from '../webhooks/subscriptions.ts'

const aheadMs = 5 * 60_000
const summaryBytesMax = 64 * 1024

export async function recordHealth(
  deps: { sql: Sql; clock: Clock; hooks: Subscriptions; wakeFeed: () => void },
  input: { agentId: string; reports: readonly HealthReport[]; by: Actor },
): Promise<void> {
  const records = newestOf(input.reports).map((report) => recordOf(report, deps.clock.now()))
  if (records.length === 0) return
  await deps.sql.begin(async (sql) => {
    await agents.lockForReport(sql, { id: input.agentId })
    await refuseForeign(sql, input, records)
    const report = { agent_id: input.agentId, records: JSON.stringify(records) }
    const isNews = await isWanted(sql, deps.hooks, ['deployment.health.changed'])
    const changes = isNews ? await deploymentHealth.changesBy(sql, report) : []
    await deploymentHealth.record(sql, report)
    await enqueue(sql, deps.hooks, changes.map(healthChanged))
  })
  deps.wakeFeed()
}

/** A revision named twice counts once, by its newest check. */
function newestOf(reports: readonly HealthReport[]): HealthReport[] {
  const byId = new Map<string, HealthReport>()
  for (const report of reports) {
    const known = byId.get(report.id)
    if (known === undefined || Date.parse(report.checked_at) >= Date.parse(known.checked_at)) byId.set(report.id, report)
  }
  return [...byId.values()]
}

function recordOf({ id, status, summary, checked_at }: HealthReport, nowMs: number) {
  const text = summary === null || summary === undefined ? null : JSON.stringify(summary)
  const wrong = !HealthStatus.safeParse(status).success
    ? `status must be one of ${HealthStatus.options.join(', ')}`
    : Date.parse(checked_at) > nowMs + aheadMs
      ? 'checked_at is more than five minutes ahead: set the clock of the cluster'
      : text !== null && Buffer.byteLength(text) > summaryBytesMax
        ? 'summary is larger than 64 KiB'
        : null
  if (wrong !== null) throw new ApiError('invalid_health_record', `${wrong}; nothing was stored`, { details: { deployment_object_id: id } })
  return { id, status, summary: text, checked_at }
}

async function refuseForeign(sql: Sql, { agentId, by }: { agentId: string; by: Actor }, records: readonly { id: string }[]): Promise<void> {
  const found = await deploymentObjects.stacksOf(sql, { ids: records.map(({ id }) => id) })
  if (found.length < records.length)
    throw new ApiError('foreign_key_violation', 'no such deployment object', {
      details: { constraint: 'deployment_health_deployment_object_id_fkey' },
    })
  if (by.kind !== 'agent') return
  const stack_ids = [...new Set(found.map((object) => object.stack_id))]
  const had = await agentTargets.hadAmong(sql, { agent_id: agentId, stack_ids })
  if (had.length < stack_ids.length)
    throw new ApiError('agent_not_associated', 'an object belongs to a stack that this agent does not have; nothing was stored')
}
