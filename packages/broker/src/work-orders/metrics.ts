// Metrics of work orders that the actions observe; counts by status are gauges read from the database.
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'

export interface WorkOrderMetrics {
  observeClaim(order: { readonly attempt: number; readonly created_at: string; readonly claimed_at: string | null }): void
}

export function createWorkOrderMetrics(metrics: Metrics): WorkOrderMetrics {
  const seconds = metrics.histogram('brokkr_work_order_claim_seconds', 'Time from the creation of a work order to its first claim')
  return {
    observeClaim: ({ attempt, created_at, claimed_at }) => {
      // Later attempts follow a failure or a timeout, whose delay is no sign of missing agents.
      if (attempt === 1 && claimed_at !== null) seconds.observe(Math.max(0, Date.parse(claimed_at) - Date.parse(created_at)) / 1000)
    },
  }
}
