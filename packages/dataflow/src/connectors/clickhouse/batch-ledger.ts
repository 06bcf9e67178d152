// Which batches are stored for certain, and which are in doubt: an insert without an answer, of this process or of an earlier one. Pure,
// apart from the ids. A doubt is settled by one more insert under the token of the first, which the server drops if it knows the token,
// and by the labels that the rows carry: they say which of the inserts is stored. The token alone would lose a batch, because the server
// logs it before the rows are in place.
import { randomUUID } from 'node:crypto'
import { isRecord, type Json, type JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import type { Partition, Position, Positions, Rec } from '../connector.ts'

/** One insert under a token. */
export interface Attempt {
  /** Value of the batch column in its rows. */
  readonly label: string
  readonly records: ReadonlySet<Rec>
  /** Positions that are complete with it; after a restart only these identify its records. */
  readonly upTo: Positions
}

export interface Doubt {
  readonly token: string
  readonly attempts: Attempt[]
}

type Compare = (left: Position, right: Position) => number

export class BatchLedger {
  readonly #compare: Compare
  /** Everything up to these positions is stored. */
  readonly #written = new Map<Partition, Position>()
  readonly #stored = new WeakSet<Rec>()
  #doubts: Doubt[] = []

  constructor(compare: Compare) {
    this.#compare = compare
  }

  get written(): Positions {
    return this.#written
  }

  clear(): void {
    this.#written.clear()
    this.#doubts = []
  }

  /** Records that are not known to be stored. */
  withoutStored(records: readonly Rec[]): Rec[] {
    return records.filter((record) => !this.#stored.has(record) && !this.#covers(this.#written, record))
  }

  /** The first doubt about any of these records, and the records it is about. */
  findDoubt(records: readonly Rec[]): { doubt: Doubt; records: Rec[] } | undefined {
    for (const doubt of this.#doubts) {
      const concerned = records.filter((record) => doubt.attempts.some((attempt) => this.#holds(attempt, record)))
      if (concerned.length > 0) return { doubt, records: concerned }
    }
    return undefined
  }

  /** A new batch: in doubt until it is settled. */
  begin(records: readonly Rec[], positions: Positions): { doubt: Doubt; attempt: Attempt } {
    const attempt = { label: randomUUID(), records: new Set(records), upTo: positions }
    const doubt = { token: randomUUID(), attempts: [attempt] }
    this.#doubts.push(doubt)
    return { doubt, attempt }
  }

  /** Another insert under the token of a doubt. Equal records get the label that they had. */
  repeat(doubt: Doubt, records: readonly Rec[], positions: Positions): Attempt {
    const same = doubt.attempts.find(({ records: earlier }) => earlier.size === records.length && records.every((one) => earlier.has(one)))
    if (same !== undefined) return same
    const attempt = { label: randomUUID(), records: new Set(records), upTo: this.#within(positions, doubt) }
    doubt.attempts.push(attempt)
    return attempt
  }

  /** The server rejected the insert because of a record, so none of its rows is stored. */
  withdraw(doubt: Doubt, attempt: Attempt): void {
    const at = doubt.attempts.indexOf(attempt)
    if (at >= 0) doubt.attempts.splice(at, 1)
    if (doubt.attempts.length === 0) this.settle(doubt, undefined)
  }

  /** `stored`: the insert whose rows exist; without one, no insert under this token is stored or will be. */
  settle(doubt: Doubt, stored: Attempt | undefined): void {
    this.#doubts = this.#doubts.filter((other) => other !== doubt)
    if (stored === undefined) return
    for (const record of stored.records) this.#stored.add(record)
    for (const [partition, position] of stored.upTo) {
      const before = this.#written.get(partition)
      if (before === undefined || this.#compare(position, before) > 0) this.#written.set(partition, position)
    }
    this.#doubts = this.#doubts.filter(({ attempts }) => !attempts.every(({ upTo, records }) => this.#isPast(upTo, records)))
  }

  /** Nothing of the attempt can come again. */
  #isPast(upTo: Positions, records: ReadonlySet<Rec>): boolean {
    if (records.size > 0 || upTo.size === 0) return false
    return [...upTo].every(([partition, position]) => {
      const written = this.#written.get(partition)
      return written !== undefined && this.#compare(written, position) >= 0
    })
  }

  #holds({ records, upTo }: Attempt, record: Rec): boolean {
    return records.has(record) || this.#covers(upTo, record)
  }

  #covers(upTo: Positions, { partition, position }: Rec): boolean {
    const last = upTo.get(partition)
    return last !== undefined && this.#compare(position, last) <= 0
  }

  /** The batch may reach beyond the doubt. */
  #within(positions: Positions, { attempts }: Doubt): Positions {
    const result = new Map<Partition, Position>()
    for (const [partition, position] of positions) {
      const ends = attempts.map(({ upTo }) => upTo.get(partition)).filter((end) => end !== undefined)
      const end = ends.toSorted(this.#compare).at(-1)
      if (end !== undefined) result.set(partition, this.#compare(position, end) <= 0 ? position : end)
    }
    return result
  }

  /** For the checkpoint. `origin`: the history that the positions belong to. */
  toState(origin: string): JsonObject {
    const doubts = this.#doubts.map(({ token, attempts }) => ({
      token,
      attempts: attempts.map(({ label, upTo }) => ({ label, upTo: toPairs(upTo) })),
    }))
    return { origin, written: toPairs(this.#written), doubts }
  }

  /** Positions of another history are ignored. */
  restore(state: JsonObject | undefined, origin: string): void {
    if (state === undefined || state['origin'] !== origin) return
    for (const [partition, position] of fromPairs(state['written'])) this.#written.set(partition, position)
    this.#doubts = asList(state['doubts']).map((doubt) => ({
      token: doubt['token'] as string,
      attempts: asList(doubt['attempts']).map(({ label, upTo }) => ({
        label: label as string,
        records: new Set<Rec>(),
        upTo: fromPairs(upTo),
      })),
    }))
  }
}

const toPairs = (positions: Positions): Json => [...positions].map(([partition, position]) => [partition, position as Json])
const fromPairs = (pairs: Json | undefined): Map<Partition, Position> => new Map((pairs ?? []) as unknown as [Partition, Position][])
const asList = (value: Json | undefined): JsonObject[] => (Array.isArray(value) ? value.filter((one) => isRecord(one)) : [])
