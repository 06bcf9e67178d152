// All background tasks of the broker with their default intervals.
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import { agentLiveness } from '../agents/tasks.ts'
import { auditCleanup } from '../audit/tasks.ts'
import { changeLogCleanup } from '../change-feed/tasks.ts'
import { diagnosticCleanup } from '../diagnostics/tasks.ts'
import { summaryVerify } from '../stacks/tasks.ts'
import { targetVerify } from '../targeting/tasks.ts'
import { telemetryCleanup } from '../telemetry/tasks.ts'
import type { Sender } from '../webhooks/delivery/sender.ts'
import { webhookCleanup, webhookDelivery } from '../webhooks/delivery/tasks.ts'
import type { SubscriptionCache } from '../webhooks/subscriptions/subscription-cache.ts'
import { workOrderMaintenance } from '../work-orders/tasks.ts'
import { housekeeping } from './housekeeping.ts'
import type { Task } from './task.ts'

export interface TaskDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly subscriptionCache: SubscriptionCache
  readonly sender: Sender
  readonly wakeFeed: () => void
}
/** Functions, because some settings may change while the broker runs. */
export interface TaskSettings {
  /** tasks.<name>.every_seconds, or null. */
  readonly everySeconds: (name: string) => number | null
  readonly retentionHours: () => number
  readonly silentSeconds: () => number
  readonly auditRetentionDays: () => number
  readonly auditCleanupSeconds: () => number
  readonly eventDays: () => number
  readonly webhookDeliverySeconds: () => number
  readonly webhookCleanupSeconds: () => number
  readonly webhookRetentionDays: () => number
  readonly telemetryRetentionSeconds: () => number
  readonly workOrderSeconds: () => number
  readonly workOrderLogDays: () => number
  readonly diagnosticCleanupSeconds: () => number
  readonly diagnosticHours: () => number
}

const day = 86_400

export function listTasks(deps: TaskDeps, settings: TaskSettings): readonly Task[] {
  const every = (name: string, seconds: () => number) => () => (settings.everySeconds(name) ?? seconds()) * 1000
  const { retentionHours, silentSeconds, eventDays, auditRetentionDays: retentionDays } = settings
  return [
    changeLogCleanup(deps, { everyMs: every('change-log-cleanup', () => 60), retentionHours }),
    agentLiveness(deps, { everyMs: every('agent-liveness', () => 10), silentSeconds }),
    auditCleanup(deps, { everyMs: every('audit-cleanup', settings.auditCleanupSeconds), retentionDays }),
    housekeeping(deps, { everyMs: every('housekeeping', () => 600), retentionHours, eventDays }),
    targetVerify(deps, { everyMs: every('target-verify', () => day) }),
    summaryVerify(deps, { everyMs: every('summary-verify', () => day) }),
    webhookDelivery(deps, { everyMs: every('webhook-delivery', settings.webhookDeliverySeconds) }),
    webhookCleanup(deps, {
      everyMs: every('webhook-cleanup', settings.webhookCleanupSeconds),
      retentionDays: settings.webhookRetentionDays,
    }),
    telemetryCleanup(deps, {
      everyMs: every('telemetry-cleanup', () => 60),
      retentionSeconds: settings.telemetryRetentionSeconds,
    }),
    workOrderMaintenance(deps, {
      everyMs: every('work-order-maintenance', settings.workOrderSeconds),
      retentionDays: settings.workOrderLogDays,
    }),
    diagnosticCleanup(deps, {
      everyMs: every('diagnostic-cleanup', settings.diagnosticCleanupSeconds),
      maxAgeHours: settings.diagnosticHours,
    }),
  ]
}
