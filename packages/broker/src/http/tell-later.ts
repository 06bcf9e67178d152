// Counts on the way of every call: one addition each, and told to the counter when somebody reads the figures. Looking its labels up
// for each call costs a microsecond and more.
import type { Metrics } from '@brokkr/runtime/metrics.ts'

export interface Count {
  n: number
}

/** The count of these labels; whoever adds to it keeps it. */
export function tellLater<Labels>(metrics: Metrics, add: (labels: Labels, times: number) => void): (labels: Labels) => Count {
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
