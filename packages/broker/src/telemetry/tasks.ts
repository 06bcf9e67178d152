// Drops partitions of telemetry that are older than the retention, and creates those of the next two hours.
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import { inBatches, type Task } from '../tasks/task.ts'
import * as k8sEvents from './store/k8s-events.ts'
import * as partitions from './store/partitions.ts'
import * as podLogs from './store/pod-logs.ts'

const tables = { agent_k8s_events: k8sEvents, agent_pod_logs: podLogs } as const
const batchRows = 1000

export function telemetryCleanup(
  deps: { sql: Sql; clock: Clock; metrics: Metrics },
  settings: { everyMs: () => number; retentionSeconds: () => number },
): Task {
  const runs = deps.metrics.counter('brokkr_ws_log_eviction_runs_total', 'Number of runs of the clean-up of telemetry')
  const evictions = deps.metrics.counter(
    'brokkr_ws_telemetry_evicted_total',
    'Approximate number of telemetry rows deleted after their retention, by table',
    ['table'],
  )
  for (const table of Object.keys(tables)) evictions.inc({ table }, 0)
  return {
    name: 'telemetry-cleanup',
    everyMs: settings.everyMs,
    run: async (signal) => {
      const retention_seconds = settings.retentionSeconds()
      await partitions.make(deps.sql, {})
      const counts = { dropped: 0, evicted: 0 }
      for (const [parent, store] of Object.entries(tables)) {
        const { dropped, evicted } = await partitions.dropOld(deps.sql, { parent, retention_seconds })
        const deleted = await inBatches(deps.clock, { pauseMs: 20, budgetMs: 30_000, signal }, () =>
          store.removeUnpartitioned(deps.sql, { retention_seconds, limit: batchRows }),
        )
        evictions.inc({ table: parent }, evicted + deleted)
        counts.dropped += dropped
        counts.evicted += evicted + deleted
      }
      runs.inc()
      return counts
    },
  }
}
