// Counts requests and measures them by route pattern, so that no id and no key becomes a label.
import type { ServerResponse } from 'node:http'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'

const bucketsSeconds = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

export interface MeasuredRequest {
  /** Route pattern, or null for a path no route has. */
  readonly pattern: string | null
  readonly method: string
  /** Its length says how long an agent stayed, not how fast we are. */
  readonly isStream: boolean
}

export function createRequestMetrics(deps: {
  clock: Clock
  metrics: Metrics
}): (response: ServerResponse, request: MeasuredRequest) => void {
  const total = deps.metrics.counter('brokkr_http_requests_total', 'Requests answered', ['endpoint', 'method', 'status'])
  const seconds = deps.metrics.histogram(
    'brokkr_http_request_duration_seconds',
    'Time to answer a request',
    ['endpoint', 'method'],
    bucketsSeconds,
  )
  return (response, { pattern, method, isStream }) => {
    const startedMs = deps.clock.monotonicMs()
    const endpoint = pattern?.replace(/:\w*id\b/g, ':id') ?? 'unmatched'
    response.on('close', () => {
      total.inc({ endpoint, method, status: String(response.statusCode) })
      if (!isStream) seconds.observe({ endpoint, method }, (deps.clock.monotonicMs() - startedMs) / 1000)
    })
  }
}
