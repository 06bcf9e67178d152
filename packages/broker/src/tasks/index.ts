// Every background task of the broker, with the interval it has unless a setting says otherwise.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import type { Sql } from '../store/sql.ts'
import type { Sender } from '../webhooks/sender.ts'
import type { Subscriptions } from '../webhooks/subscriptions.ts'
import { agentLiveness } from './agent-liveness.ts'
import { auditCleanup } from './audit-cleanup.ts'
import { changeLogCleanup } from './change-log-cleanup.ts'
import { housekeeping } from './housekeeping.ts'
import { summaryVerify } from './summary-verify.ts'
import { targetVerify } from './target-verify.ts'
import type { Task } from './task.ts'
import { webhookCleanup } from './webhook-cleanup.ts'
import { webhookDelivery } from './webhook-delivery.ts'

export interface TaskDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly hooks: Subscriptions
  readonly sender: Sender
  readonly wakeFeed: () => void
}
/** Read at every use: some may change while the broker runs. */
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
  ]
}
