// Events that wait for the broker, in order, bounded in number and bytes. At the limit the oldest events of the largest object are folded
// into its next one with a count.
import type { NewAgentEvent } from '@brokkr/contract/reports/agent-event.ts'

export type SpooledEvent = NewAgentEvent & { readonly id: string }
export interface SpoolLimits {
  readonly count: number
  readonly bytes: number
}
interface Entry {
  event: SpooledEvent
  bytes: number
  /** Number of events folded into this one. */
  folded: number
}

export class EventSpool {
  readonly #limits: SpoolLimits
  readonly #onFolded: (isLost: boolean) => void
  readonly #entries = new Map<string, Entry>()
  readonly #perObject = new Map<string, number>()
  #bytes = 0

  /** `onFolded` is called for each dropped event; true: without a trace. */
  constructor(limits: SpoolLimits, onFolded: (isLost: boolean) => void) {
    this.#limits = limits
    this.#onFolded = onFolded
  }

  get size(): number {
    return this.#entries.size
  }

  has(id: string): boolean {
    return this.#entries.has(id)
  }

  /** An event with the same id replaces the earlier one in its position. */
  add(event: SpooledEvent): void {
    const before = this.#entries.get(event.id)
    if (before) this.#count(before, -1)
    const entry = { event, bytes: Buffer.byteLength(JSON.stringify(event)), folded: before?.folded ?? 0 }
    this.#entries.set(event.id, entry)
    this.#count(entry, 1)
    while (this.#entries.size > 1 && (this.#entries.size > this.#limits.count || this.#bytes > this.#limits.bytes)) this.#foldOne()
  }

  /** The oldest events within the limits; at least one if there is any. */
  next(limits: SpoolLimits): SpooledEvent[] {
    const events: SpooledEvent[] = []
    let bytes = 0
    for (const { event, bytes: size, folded } of this.#entries.values()) {
      bytes += size
      if (events.length >= limits.count || (events.length > 0 && bytes > limits.bytes)) break
      events.push(folded === 0 ? event : withNote(event, folded))
    }
    return events
  }

  all(): SpooledEvent[] {
    return this.next({ count: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY })
  }

  done(id: string): void {
    const entry = this.#entries.get(id)
    if (!entry) return
    this.#entries.delete(id)
    this.#count(entry, -1)
  }

  #foldOne(): void {
    const fullest = [...this.#perObject].reduce((most, one) => (one[1] > most[1] ? one : most))[0]
    const [oldest, heir] = [...this.#entries.values()].filter(({ event }) => event.deployment_object_id === fullest)
    if (!oldest) return
    this.done(oldest.event.id)
    if (heir) heir.folded += oldest.folded + 1
    this.#onFolded(heir === undefined)
  }

  #count({ event, bytes }: Entry, sign: 1 | -1): void {
    this.#bytes += sign * bytes
    const remaining = (this.#perObject.get(event.deployment_object_id) ?? 0) + sign
    if (remaining > 0) this.#perObject.set(event.deployment_object_id, remaining)
    else this.#perObject.delete(event.deployment_object_id)
  }
}

const withNote = (event: SpooledEvent, folded: number): SpooledEvent => {
  const note = `[${folded} earlier event${folded === 1 ? '' : 's'} of this object could not be kept while the broker was away]`
  return { ...event, message: event.message ? `${event.message} ${note}` : note }
}
