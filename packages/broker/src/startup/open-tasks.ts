// Opens the background work of the broker: webhook delivery and the tasks of all features.
import type { BrokerConfig } from '../config.ts'
import type { BrokerDeps } from '../deps.ts'
import { toDatabaseError } from '../http/response/database-error.ts'
import { listTasks, type TaskSettings } from '../tasks/index.ts'
import { startTasks } from '../tasks/run-tasks.ts'
import { version } from '../version.ts'
import { openWebhooks, type Webhooks } from '../webhooks/delivery/open-webhooks.ts'
import type { StartContext } from './context.ts'
import type { Feed } from './open-feed.ts'
import type { Store } from './open-store.ts'

export interface BackgroundWork {
  readonly webhooks: Webhooks
  readonly tasks: BrokerDeps['tasks']
  /** Ends the runs of tasks, then waits up to 20 s for deliveries in flight. */
  readonly stopTasks: () => Promise<void>
}

/** Time for deliveries in flight when the broker stops. */
const deliveryGraceMs = 20_000

export function openTasks(deps: StartContext & Store & Feed): BackgroundWork {
  const { config, processName, onClose, feed } = deps
  const webhooks = openWebhooks(deps, { settings: config.broker, userAgent: `brokkr/${version}` })
  onClose('webhook receivers', () => webhooks.outbound.close())
  const isAway = (error: unknown) => toDatabaseError(error)?.code === 'database_unavailable'
  const taskDeps = { ...deps, sender: webhooks.sender }
  const running = startTasks({ ...deps, owner: processName, isAway }, listTasks(taskDeps, toTaskSettings(config)))
  feed.onTask((kind) => running.wake(kind.replaceAll('_', '-')))
  const stopTasks = async () => {
    await running.stop()
    await webhooks.sender.stop(deliveryGraceMs)
  }
  return { webhooks, tasks: () => running.tasks, stopTasks }
}

const toTaskSettings = (config: BrokerConfig): TaskSettings => ({
  everySeconds: (name) => (config.tasks as Record<string, { every_seconds: number | null } | undefined>)[name]?.every_seconds ?? null,
  retentionHours: () => config.feed.retention_hours,
  silentSeconds: () => config.broker.agent_disconnect_after_seconds,
  auditRetentionDays: () => config.broker.audit_log_retention_days,
  auditCleanupSeconds: () => config.broker.audit_cleanup_interval_seconds,
  eventDays: () => config.broker.agent_events_retention_days,
  webhookDeliverySeconds: () => config.broker.webhook_delivery_interval_seconds,
  webhookCleanupSeconds: () => config.broker.webhook_cleanup_interval_seconds,
  webhookRetentionDays: () => config.broker.webhook_cleanup_retention_days,
  telemetryRetentionSeconds: () => config.broker.telemetry_retention_seconds,
  workOrderSeconds: () => config.broker.work_order_maintenance_interval_seconds,
  workOrderLogDays: () => config.broker.work_order_log_retention_days,
  diagnosticCleanupSeconds: () => config.broker.diagnostic_cleanup_interval_seconds,
  diagnosticHours: () => config.broker.diagnostic_max_age_hours,
})
