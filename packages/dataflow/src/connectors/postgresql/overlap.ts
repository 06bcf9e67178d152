// Rows that a polling source emitted and may read again: those within the overlap before the last row. If the overlap has more rows than
// the list may hold, the oldest are dropped and re-reading starts after them, so that no row is emitted twice.

/** A row by its change value and key. */
export interface RowKey {
  readonly c: string
  readonly o: string
}

export interface OverlapOptions {
  readonly overlapMs: number
  readonly rowsMax: number
  compare(left: RowKey, right: RowKey): number
}

export class OverlapWindow {
  readonly #options: OverlapOptions
  /** In order, from `#head` on; earlier entries are removed in larger steps. */
  #rows: RowKey[] = []
  #head = 0
  readonly #keys = new Set<string>()
  #floor: RowKey | undefined

  constructor(options: OverlapOptions) {
    this.#options = options
  }

  has(row: RowKey): boolean {
    return this.#keys.has(toKey(row))
  }

  /** Rows up to and including this one are not read again; undefined: the whole overlap is. */
  get floor(): RowKey | undefined {
    return this.#floor
  }

  /** `rows` in order; `last`: the row after which reading continues. */
  add(rows: readonly RowKey[], last: RowKey): void {
    if (rows.length === 0) return
    for (const row of rows) this.#keys.add(toKey(row))
    const end = this.#rows.at(-1)
    const isBehind = this.#rows.length === this.#head || this.#options.compare(end!, rows[0]!) < 0
    if (isBehind) for (const row of rows) this.#rows.push(row)
    else this.#rows = merge(this.#rows.slice(this.#head), rows, (left, right) => this.#options.compare(left, right))
    if (!isBehind) this.#head = 0
    this.#trim(timeMs(last) - this.#options.overlapMs)
  }

  clear(): void {
    this.#rows = []
    this.#head = 0
    this.#keys.clear()
    this.#floor = undefined
  }

  /** A time that cannot be compared counts as inside. */
  #trim(beginMs: number): void {
    while (this.#head < this.#rows.length && timeMs(this.#rows[this.#head]!) < beginMs) this.#forgetFirst()
    if (this.#floor !== undefined && timeMs(this.#floor) < beginMs) this.#floor = undefined
    while (this.#rows.length - this.#head > this.#options.rowsMax) this.#raiseFloor(this.#forgetFirst())
    if (this.#head < 10_000) return
    this.#rows = this.#rows.slice(this.#head)
    this.#head = 0
  }

  #raiseFloor(row: RowKey): void {
    if (this.#floor === undefined || this.#options.compare(row, this.#floor) > 0) this.#floor = row
  }

  #forgetFirst(): RowKey {
    const first = this.#rows[this.#head]!
    this.#head += 1
    this.#keys.delete(toKey(first))
    return first
  }
}

const toKey = ({ c, o }: RowKey): string => `${c}\n${o}`

/** Rounded down to milliseconds; times without a zone are UTC, as in the session. */
const timeMs = ({ c }: RowKey): number => Date.parse(/T.*[Z+]/.test(c) || !c.includes('T') ? c : `${c}Z`)

function merge(left: readonly RowKey[], right: readonly RowKey[], compare: (left: RowKey, right: RowKey) => number): RowKey[] {
  const merged: RowKey[] = []
  let at = 0
  for (const row of right) {
    while (at < left.length && compare(left[at]!, row) <= 0) {
      merged.push(left[at]!)
      at += 1
    }
    merged.push(row)
  }
  return merged.concat(left.slice(at))
}
