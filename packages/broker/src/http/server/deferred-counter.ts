// A counter for the request path: one addition per request, added to the metric at each scrape. A lookup of its labels would cost more
// than a microsecond per request.
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'

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
