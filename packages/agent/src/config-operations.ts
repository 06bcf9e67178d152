// The settings of what an agent does on request: work orders, diagnostics, webhooks, telemetry.

import { isCidr } from '@brokkr/runtime/address.ts'
import { type ConfigOf, count, seconds, setting } from '@brokkr/runtime/config-table.ts'
import { z } from 'zod'

const interval = seconds.min(0.01)
const hot = { hot: true }

export const operationsTable = {
  work_order_types: setting(z.array(z.enum(['build', 'custom'])), ['build', 'custom']),
  work_order_concurrency: setting(count.min(1).max(100), 1),
  work_order_check_seconds: setting(interval, 5),
  build_timeout: setting(interval, 900),
  work_order_cleanup_after: setting(interval, 86_400),
  diagnostics_interval: setting(interval, 10),
  webhook_delivery: setting(z.boolean(), true),
  webhook_interval: setting(interval, 10),
  webhook_denied_cidrs: setting(z.array(z.string().refine(isCidr, 'must be a network such as 10.0.0.0/8')), []),
  kube_events: setting(z.boolean(), true, hot),
  pod_logs: setting(z.boolean(), true, hot),
  pod_log_lines_per_second: setting(count.min(1), 100, hot),
  kube_event_uid_cache_cap: setting(count.min(1), 10_000, hot),
  telemetry_interval: setting(interval, 1),
  /** Between two tellings of what stands because of each stack. */
  inventory_interval: setting(interval, 5),
}
export type OperationsConfig = ConfigOf<typeof operationsTable>
