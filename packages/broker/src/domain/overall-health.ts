// Many words about health in one: the worst that was said, and unknown where nobody said anything.
import type { HealthStatus } from '@brokkr/contract/health.ts'

const worstFirst = ['failing', 'degraded', 'healthy'] as const satisfies readonly HealthStatus[]

export const overallHealth = (statuses: readonly HealthStatus[]): HealthStatus =>
  worstFirst.find((status) => statuses.includes(status)) ?? 'unknown'
