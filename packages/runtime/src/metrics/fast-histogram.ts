// Histogram for about 100,000 observations per second: labels are bound once, and an observation is a few additions. The ordinary
// histogram looks up labels on each observation, which costs over a microsecond.

export interface FastHistogram {
  observe(value: number, times?: number): void
}

/** All series of one name; the registry reads it like one of its own metrics. */
export class FastHistogramFamily {
  readonly name: string
  readonly help: string
  readonly type = 'histogram'
  readonly aggregator = 'sum'
  readonly #bounds: Float64Array
  readonly #series = new Map<string, Series>()

  constructor(name: string, help: string, bounds: readonly number[]) {
    this.name = name
    this.help = help
    this.#bounds = Float64Array.from(bounds)
  }

  of(labels: Readonly<Record<string, string>>): FastHistogram {
    const key = JSON.stringify(labels)
    const existing = this.#series.get(key)
    if (existing !== undefined) return existing
    const series = new Series(labels, this.#bounds)
    this.#series.set(key, series)
    return series
  }

  get(): Promise<{ name: string; help: string; type: string; aggregator: string; values: readonly Value[] }> {
    const values = [...this.#series.values()].flatMap((series) => series.values(this.name))
    return Promise.resolve({ name: this.name, help: this.help, type: this.type, aggregator: this.aggregator, values })
  }

  reset(): void {
    this.#series.clear()
  }
}

type Value = { readonly metricName: string; readonly labels: Record<string, string | number>; readonly value: number }

class Series implements FastHistogram {
  readonly #labels: Readonly<Record<string, string>>
  readonly #bounds: Float64Array
  readonly #counts: Float64Array
  #sum = 0

  constructor(labels: Readonly<Record<string, string>>, bounds: Float64Array) {
    this.#labels = labels
    this.#bounds = bounds
    this.#counts = new Float64Array(bounds.length + 1)
  }

  observe(value: number, times = 1): void {
    const bounds = this.#bounds
    let at = 0
    while (at < bounds.length && value > bounds[at]!) at += 1
    this.#counts[at]! += times
    this.#sum += value * times
  }

  values(name: string): Value[] {
    let count = 0
    const buckets = Array.from(this.#counts, (each, at): Value => {
      count += each
      const le = at < this.#bounds.length ? this.#bounds[at]! : '+Inf'
      return { metricName: `${name}_bucket`, labels: { le, ...this.#labels }, value: count }
    })
    return [
      ...buckets,
      { metricName: `${name}_sum`, labels: { ...this.#labels }, value: this.#sum },
      { metricName: `${name}_count`, labels: { ...this.#labels }, value: count },
    ]
  }
}
