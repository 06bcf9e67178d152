// Buffer of events and log lines, bounded in number and bytes. Dropped items are counted per stack and sent as one gap per window and
// reason.
import type { AgentMetrics } from '../metrics.ts'

export type GapReason = 'rate_limit' | 'buffer_full' | 'disconnected'
export type TelemetryItem =
  | { readonly is: 'k8s_event'; readonly stackId: string; readonly body: Readonly<Record<string, unknown>> }
  | { readonly is: 'pod_log_line'; readonly stackId: string; readonly body: Readonly<Record<string, unknown>> }
export interface Gap {
  readonly stack_id: string
  readonly since_ts: string
  readonly dropped_count: number
  readonly reason: GapReason
}
export interface BufferLimits {
  readonly count: number
  readonly bytes: number
}

export class TelemetryBuffer {
  readonly #limits: BufferLimits
  readonly #metrics: AgentMetrics
  readonly #now: () => number
  #items: { item: TelemetryItem; bytes: number }[] = []
  #bytes = 0
  #gaps = new Map<string, Gap>()
  #onFirst: () => void = () => undefined

  constructor(deps: { metrics: AgentMetrics; now: () => number }, limits: BufferLimits = { count: 10_000, bytes: 4 * 1024 * 1024 }) {
    this.#metrics = deps.metrics
    this.#now = deps.now
    this.#limits = limits
  }

  get size(): number {
    return this.#items.length
  }
  get isEmpty(): boolean {
    return this.#items.length === 0 && this.#gaps.size === 0
  }

  /** Called when the first item is added to an empty buffer. */
  onFirst(listener: () => void): void {
    this.#onFirst = listener
  }

  /** Drops the oldest item if the buffer is full. */
  add(item: TelemetryItem): void {
    const bytes = Buffer.byteLength(JSON.stringify(item.body))
    const isFirst = this.isEmpty
    this.#items.push({ item, bytes })
    this.#bytes += bytes
    while (this.#items.length > this.#limits.count || this.#bytes > this.#limits.bytes) {
      const oldest = this.#items.shift()
      if (!oldest) return
      this.#bytes -= oldest.bytes
      this.drop(oldest.item.stackId, 'buffer_full')
    }
    if (isFirst) this.#onFirst()
  }

  drop(stackId: string, reason: GapReason, count = 1): void {
    const key = `${stackId} ${reason}`
    const isFirst = this.isEmpty
    const gap = this.#gaps.get(key)
    const since_ts = gap?.since_ts ?? new Date(this.#now()).toISOString()
    this.#gaps.set(key, { stack_id: stackId, since_ts, reason, dropped_count: (gap?.dropped_count ?? 0) + count })
    this.#metrics.telemetryDropped.inc({ reason }, count)
    if (isFirst) this.#onFirst()
  }

  /** Takes items out; `putBack` returns unsent ones. */
  take(limits: BufferLimits): { items: TelemetryItem[]; gaps: Gap[] } {
    const items: TelemetryItem[] = []
    let bytes = 0
    for (let first = this.#items[0]; first && items.length < limits.count; first = this.#items[0]) {
      bytes += first.bytes
      if (bytes > limits.bytes && items.length > 0) break
      items.push(first.item)
      this.#items.shift()
      this.#bytes -= first.bytes
    }
    const gaps = [...this.#gaps.values()]
    this.#gaps = new Map()
    return { items, gaps }
  }

  putBack({ items, gaps }: { items: readonly TelemetryItem[]; gaps: readonly Gap[] }): void {
    const later = this.#items
    this.#items = []
    this.#bytes = 0
    for (const item of [...items, ...later.map((each) => each.item)]) this.add(item)
    for (const gap of gaps) {
      const key = `${gap.stack_id} ${gap.reason}`
      const since = this.#gaps.get(key)
      this.#gaps.set(key, { ...gap, dropped_count: gap.dropped_count + (since?.dropped_count ?? 0) })
    }
  }
}

/** The beginning of a text without characters that the broker refuses: a NUL, or half of a surrogate pair that the cut left. */
export const toStorableText = (text: string, charsMax: number): string => text.slice(0, charsMax).replaceAll('\0', '\uFFFD').toWellFormed()
