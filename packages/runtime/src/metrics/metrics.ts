// Counters, gauges and histograms of one program in Prometheus text format. Each createMetrics() has its own registry, so that two
// programs in one process (`brokkr up`, tests) do not share values.
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from '@prometheus-io/client'

import { type FastHistogram, FastHistogramFamily } from './fast-histogram.ts'

export type { Counter, Gauge, Histogram } from '@prometheus-io/client'
export type { FastHistogram } from './fast-histogram.ts'

export interface Metrics {
  /** Returns the same metric for the same name; throws for other labels or another type. */
  counter<L extends string = never>(name: string, help: string, labels?: readonly L[]): Counter<L>
  gauge<L extends string = never>(name: string, help: string, labels?: readonly L[]): Gauge<L>
  histogram<L extends string = never>(name: string, help: string, labels?: readonly L[], buckets?: readonly number[]): Histogram<L>
  /** A histogram for hot paths: one series with its labels bound; buckets are those of the first call. */
  tally(name: string, help: string, labels: Readonly<Record<string, string>>, buckets?: readonly number[]): FastHistogram
  /** Sets gauges just before each scrape. */
  beforeScrape(refresh: () => void | Promise<void>): void
  text(): Promise<string>
  readonly contentType: string
}

export type MetricsOptions = {
  /** Put before every name that does not begin with it. */
  prefix?: string
  /** CPU, memory, garbage collection and event loop of this process, under their usual names. Samples the event loop rarely, so
   *  that an idle process stays idle. */
  processMetrics?: boolean | 'calm'
}
const defaultBuckets = { eventLoopMonitoringPrecision: 500, eventLoopUtilizationTimeout: 5_000 }

/** From 1 ms to 60 s: requests, tasks and applies all fall in between. */
const secondsBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

export function createMetrics(options: MetricsOptions = {}): Metrics {
  const registry = new Registry()
  const registeredMetrics = new Map<string, RegisteredMetrics>()
  const refreshers: (() => void | Promise<void>)[] = []
  const { processMetrics = false } = options
  if (processMetrics !== false) collectDefaultMetrics({ register: registry, ...(processMetrics === 'calm' ? defaultBuckets : {}) })
  const settings = (name: string, help: string, labels: readonly string[] = []) => ({
    name: prefixed(options.prefix ?? '', name),
    help,
    labelNames: [...labels],
    registers: [registry],
  })
  return {
    counter: (name, help, labels) => once(registeredMetrics, 'counter', settings(name, help, labels), (all) => new Counter(all)) as never,
    gauge: (name, help, labels) => once(registeredMetrics, 'gauge', settings(name, help, labels), (all) => new Gauge(all)) as never,
    histogram: (name, help, labels, buckets = secondsBuckets) =>
      once(
        registeredMetrics,
        'histogram',
        settings(name, help, labels),
        (all) => new Histogram({ ...all, buckets: [...buckets] }),
      ) as never,
    tally: (name, help, labels, buckets = secondsBuckets) => {
      const all = settings(name, help, Object.keys(labels))
      const make = () => {
        const family = new FastHistogramFamily(all.name, help, buckets)
        registry.registerMetric(family as never)
        return family
      }
      return (once(registeredMetrics, 'tally', all, make) as FastHistogramFamily).of(labels)
    },
    beforeScrape: (refresh) => void refreshers.push(refresh),
    text: async () => {
      for (const refresh of refreshers) await refresh()
      return registry.metrics()
    },
    contentType: registry.contentType,
  }
}

type Settings = { name: string; help: string; labelNames: string[]; registers: Registry[] }
type RegisteredMetrics = { shape: string; metric: unknown }

function prefixed(prefix: string, name: string): string {
  return name.startsWith(prefix) ? name : `${prefix}${name}`
}

function once(known: Map<string, RegisteredMetrics>, type: string, settings: Settings, make: (settings: Settings) => unknown): unknown {
  const shape = `${type}(${settings.labelNames.toSorted().join(',')})`
  const earlier = known.get(settings.name)
  if (earlier && earlier.shape !== shape)
    throw new Error(`metric ${settings.name} exists as ${earlier.shape} and was asked for as ${shape}: use one name for one thing`)
  if (earlier) return earlier.metric
  const metric = make(settings)
  known.set(settings.name, { shape, metric })
  return metric
}
