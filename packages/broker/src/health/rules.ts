// Aggregates health states: the worst reported state, or unknown without reports.
import type { HealthStatus } from '@brokkr/contract/health/deployment-health.ts'

const worstFirst = ['failing', 'degraded', 'healthy'] as const satisfies readonly HealthStatus[]

export const overallHealth = (statuses: readonly HealthStatus[]): HealthStatus =>
  worstFirst.find((status) => statuses.includes(status)) ?? 'unknown'
