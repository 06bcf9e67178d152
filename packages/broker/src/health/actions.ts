// Stores the health of deployment objects as reported by an agent, in one transaction per report. An older check never replaces a newer one.
import { ApiError } from '@brokkr/contract/errors.ts'
import { type HealthReport, HealthStatus, healthSummaryBytesMax } from '@brokkr/contract/health/deployment-health.ts'
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import * as agents from '../agents/store/agents.ts'
import type { Actor } from '../audit/rules.ts'
import * as deploymentObjects from '../deployments/store/deployment-objects.ts'
import { listReportedFlows } from '../flows/rules.ts'
import * as flows from '../flows/store/flows.ts'
import * as agentTargets from '../targeting/store/agent-targets.ts'
import { enqueueDeliveries, hasSubscriber } from '../webhooks/delivery/enqueue.ts'
import { healthChanged } from '../webhooks/delivery/rules/webhook-events.ts'
import type { SubscriptionCache } from '../webhooks/subscriptions/subscription-cache.ts'
import * as deploymentHealth from './store.ts'

const aheadMs = 5 * 60_000

export async function recordHealth(
  deps: { sql: Sql; clock: Clock; subscriptionCache: SubscriptionCache; wakeFeed: () => void },
  input: { agentId: string; reports: readonly HealthReport[]; actor: Actor },
): Promise<void> {
  const latest = keepLatestChecks(input.reports)
  const records = latest.map((report) => toHealthRecord(report, deps.clock.now()))
  const reported = listReportedFlows(latest)
  if (records.length === 0) return
  await deps.sql.begin(async (sql) => {
    await agents.lockForReport(sql, { id: input.agentId })
    await refuseForeign(sql, input, records)
    const report = { agent_id: input.agentId, records: JSON.stringify(records) }
    const isNews = await hasSubscriber(sql, deps.subscriptionCache, ['deployment.health.changed'])
    const changes = isNews ? await deploymentHealth.listChanges(sql, report) : []
    await deploymentHealth.record(sql, report)
    if (reported.objects.length > 0)
      await flows.record(sql, {
        agent_id: input.agentId,
        objects: JSON.stringify(reported.objects),
        flows: JSON.stringify(reported.flows),
      })
    await enqueueDeliveries(sql, deps.subscriptionCache, changes.map(healthChanged))
  })
  deps.wakeFeed()
}

/** Keeps the latest check of each deployment object. */
function keepLatestChecks(reports: readonly HealthReport[]): HealthReport[] {
  const byId = new Map<string, HealthReport>()
  for (const report of reports) {
    const previous = byId.get(report.id)
    if (previous === undefined || Date.parse(report.checked_at) >= Date.parse(previous.checked_at)) byId.set(report.id, report)
  }
  return [...byId.values()]
}

function toHealthRecord({ id, status, summary, checked_at }: HealthReport, nowMs: number) {
  const text = summary === null || summary === undefined ? null : JSON.stringify(summary)
  const problem = !HealthStatus.safeParse(status).success
    ? `status must be one of ${HealthStatus.options.join(', ')}`
    : Date.parse(checked_at) > nowMs + aheadMs
      ? 'checked_at is more than five minutes ahead: set the clock of the cluster'
      : text !== null && Buffer.byteLength(text) > healthSummaryBytesMax
        ? 'summary is larger than 64 KiB'
        : null
  if (problem !== null)
    throw new ApiError('invalid_health_record', `${problem}; nothing was stored`, { details: { deployment_object_id: id } })
  return { id, status, summary: text, checked_at }
}

async function refuseForeign(
  sql: Sql,
  { agentId, actor }: { agentId: string; actor: Actor },
  records: readonly { id: string }[],
): Promise<void> {
  const objects = await deploymentObjects.listStackIds(sql, { ids: records.map(({ id }) => id) })
  if (objects.length < records.length)
    throw new ApiError('foreign_key_violation', 'no such deployment object', {
      details: { constraint: 'deployment_health_deployment_object_id_fkey' },
    })
  if (actor.kind !== 'agent') return
  const stack_ids = [...new Set(objects.map((object) => object.stack_id))]
  const targeted = await agentTargets.hadAmong(sql, { agent_id: agentId, stack_ids })
  if (targeted.length < stack_ids.length)
    throw new ApiError('agent_not_associated', 'a deployment object belongs to a stack that does not target this agent; nothing was stored')
}
