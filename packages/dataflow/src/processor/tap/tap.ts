// Samples of records as they leave the chain, for readers of /tap: at most 20 a second, and none while nobody reads. Values are shown only
// of a flow that masks every record; of other flows keys and types. Keys, metadata and positions of messages are never shown, because no mask
// covers them.
import type { Json } from '@brokkr/contract/dataflow/language/json.ts'
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { getPayload, type Message, workingCopy } from '../../message/message.ts'

export type TapReader = (line: string) => void

const perSecond = 20
const lineCharsMax = 64 * 1024
const shape = { depth: 16, entries: 200 }

/** A mask with a condition leaves other records as they are. */
export const isMasked = ({ transformations }: Pick<Flow, 'transformations'>): boolean =>
  transformations.some(({ type, when }) => type === 'mask' && when === undefined)

export class Tap {
  readonly #clock: Clock
  readonly #showsValues: boolean
  readonly #readers = new Set<TapReader>()
  #secondStartMs = 0
  #taken = 0

  constructor(deps: { readonly clock: Clock }, flow: Pick<Flow, 'transformations'>) {
    this.#clock = deps.clock
    this.#showsValues = isMasked(flow)
  }

  get readers(): number {
    return this.#readers.size
  }

  /** Returns the end of the reading. */
  read(reader: TapReader): () => void {
    this.#readers.add(reader)
    return () => void this.#readers.delete(reader)
  }

  offer(records: readonly Message[]): void {
    if (this.#readers.size === 0) return
    for (const record of records) {
      if (!this.#takePlace()) return
      const line = this.#toLine(record)
      for (const reader of this.#readers) reader(line)
    }
  }

  #takePlace(): boolean {
    const nowMs = this.#clock.monotonicMs()
    if (nowMs - this.#secondStartMs >= 1_000) [this.#secondStartMs, this.#taken] = [nowMs, 0]
    this.#taken += 1
    return this.#taken <= perSecond
  }

  #toLine(record: Message): string {
    const payload = getPayload(workingCopy(record))
    const about = { at: new Date(this.#clock.now()).toISOString(), ...(record.route === undefined ? {} : { route: record.route }) }
    if (payload === undefined) return JSON.stringify({ ...about, bytes: record.bytes })
    const whole = this.#showsValues ? JSON.stringify({ ...about, record: payload }) : undefined
    if (whole !== undefined && whole.length <= lineCharsMax) return whole
    return JSON.stringify({ ...about, types: toTypes(payload) }).slice(0, lineCharsMax)
  }
}

/** Keys with the types of their values. */
export function toTypes(value: Json, depth = 0): unknown {
  if (value === null) return 'null'
  if (typeof value !== 'object') return typeof value
  if (depth >= shape.depth) return Array.isArray(value) ? 'array' : 'object'
  if (Array.isArray(value)) return value.slice(0, 1).map((each) => toTypes(each, depth + 1))
  const entries = Object.entries(value).slice(0, shape.entries)
  return Object.fromEntries(entries.map(([key, each]) => [key, toTypes(each as Json, depth + 1)]))
}
