// Counts and measures requests by route pattern, so that no id or PAK becomes a label.
import type { ServerResponse } from 'node:http'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { FastHistogram, Metrics } from '@brokkr/runtime/metrics/metrics.ts'

const bucketsSeconds = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

export interface MeasuredRequest {
  /** Route pattern; null if no route matches. */
  readonly pattern: string | null
  readonly method: string
  /** Not measured: the duration of a stream is not a latency. */
  readonly isStream: boolean
}

export function createRequestMetrics(deps: {
  clock: Clock
  metrics: Metrics
}): (response: ServerResponse, request: MeasuredRequest) => void {
  const total = deps.metrics.counter('brokkr_http_requests_total', 'Number of requests by endpoint, method and status', [
    'endpoint',
    'method',
    'status',
  ])
  const countOf = createDeferredCounter(deps.metrics, (labels: { endpoint: string; method: string; status: string }, times) =>
    total.inc(labels, times),
  )
  const measureOf = (endpoint: string, method: string): Measure => ({
    seconds: deps.metrics.tally('brokkr_http_request_duration_seconds', 'Time to answer a request', { endpoint, method }, bucketsSeconds),
    count: keptBy((status: number) => countOf({ endpoint, method, status: String(status) })),
  })
  const measures = keptBy((pattern: string | null) => {
    const endpoint = pattern?.replace(/:\w*id\b/g, ':id') ?? 'unmatched'
    return keptBy((method: string) => measureOf(endpoint, method))
  })
  return (response, { pattern, method, isStream }) => {
    const startedMs = deps.clock.monotonicMs()
    const measure = measures(pattern)(method)
    response.on('close', () => {
      measure.count(response.statusCode).n += 1
      if (!isStream) measure.seconds.observe((deps.clock.monotonicMs() - startedMs) / 1000)
    })
  }
}

interface Measure {
  readonly seconds: FastHistogram
  readonly count: (status: number) => Count
}

/** One counter per key, created once. Patterns, methods and statuses are few; no value chosen by a client is a key. */
function keptBy<K, V>(make: (key: K) => V): (key: K) => V {
  const kept = new Map<K, V>()
  return (key) => {
    let value = kept.get(key)
    if (value === undefined) kept.set(key, (value = make(key)))
    return value
  }
}

// A counter for the request path: one addition per request, added to the metric at each scrape. A lookup of its labels would cost more
// than a microsecond per request.

export interface Count {
  n: number
}

/** Returns the count of these labels; the caller keeps and increments it. */
export function createDeferredCounter<Labels>(metrics: Metrics, add: (labels: Labels, times: number) => void): (labels: Labels) => Count {
  const counts: { readonly labels: Labels; readonly count: Count }[] = []
  metrics.beforeScrape(() => {
    for (const { labels, count } of counts) {
      if (count.n > 0) add(labels, count.n)
      count.n = 0
    }
  })
  return (labels) => {
    const count = { n: 0 }
    counts.push({ labels, count })
    return count
  }
}
