// Counters, gauges and histograms of one process in the Prometheus text form. Each createMetrics() has a registry of its
// own, so that two programs in one process (`brokkr up`, tests) do not share numbers.
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from '@prometheus-io/client'

import { type Tally, TallyFamily } from './tally.ts'

export type { Counter, Gauge, Histogram } from '@prometheus-io/client'
export type { Tally } from './tally.ts'

export interface Metrics {
  /** Asking again for a name hands out the same metric; with other labels or of another type it throws. */
  counter<L extends string = never>(name: string, help: string, labels?: readonly L[]): Counter<L>
  gauge<L extends string = never>(name: string, help: string, labels?: readonly L[]): Gauge<L>
  histogram<L extends string = never>(name: string, help: string, labels?: readonly L[], buckets?: readonly number[]): Histogram<L>
  /** A histogram for hot paths: one series with its labels bound; buckets are those of the first call. */
  tally(name: string, help: string, labels: Readonly<Record<string, string>>, buckets?: readonly number[]): Tally
  /** Sets gauges just before each scrape. */
  beforeScrape(refresh: () => void | Promise<void>): void
  text(): Promise<string>
  readonly contentType: string
}

export type MetricsOptions = {
  /** Put before every name that does not begin with it. */
  prefix?: string
  /** CPU, memory, garbage collection and event loop of this process, under their usual names; calm: the event loop is looked at so
   *  seldom that a process which mostly waits is not kept awake by it. */
  processMetrics?: boolean | 'calm'
}
const calm = { eventLoopMonitoringPrecision: 500, eventLoopUtilizationTimeout: 5_000 }

/** From 1 ms to 60 s: requests, tasks and applies all fall in between. */
const secondsBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]

export function createMetrics(options: MetricsOptions = {}): Metrics {
  const registry = new Registry()
  const known = new Map<string, Known>()
  const refreshers: (() => void | Promise<void>)[] = []
  const { processMetrics = false } = options
  if (processMetrics !== false) collectDefaultMetrics({ register: registry, ...(processMetrics === 'calm' ? calm : {}) })
  const settings = (name: string, help: string, labels: readonly string[] = []) => ({
    name: prefixed(options.prefix ?? '', name),
    help,
    labelNames: [...labels],
    registers: [registry],
  })
  return {
    counter: (name, help, labels) => once(known, 'counter', settings(name, help, labels), (all) => new Counter(all)) as never,
    gauge: (name, help, labels) => once(known, 'gauge', settings(name, help, labels), (all) => new Gauge(all)) as never,
    histogram: (name, help, labels, buckets = secondsBuckets) =>
      once(known, 'histogram', settings(name, help, labels), (all) => new Histogram({ ...all, buckets: [...buckets] })) as never,
    tally: (name, help, labels, buckets = secondsBuckets) => {
      const all = settings(name, help, Object.keys(labels))
      const make = () => {
        const family = new TallyFamily(all.name, help, buckets)
        registry.registerMetric(family as never)
        return family
      }
      return (once(known, 'tally', all, make) as TallyFamily).of(labels)
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
type Known = { shape: string; metric: unknown }

function prefixed(prefix: string, name: string): string {
  return name.startsWith(prefix) ? name : `${prefix}${name}`
}

function once(known: Map<string, Known>, type: string, settings: Settings, make: (settings: Settings) => unknown): unknown {
  const shape = `${type}(${settings.labelNames.toSorted().join(',')})`
  const earlier = known.get(settings.name)
  if (earlier && earlier.shape !== shape)
    throw new Error(`metric ${settings.name} exists as ${earlier.shape} and was asked for as ${shape}: use one name for one thing`)
  if (earlier) return earlier.metric
  const metric = make(settings)
  known.set(settings.name, { shape, metric })
  return metric
}
