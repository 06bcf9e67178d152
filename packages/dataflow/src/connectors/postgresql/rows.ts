// Rows as texts by column. Rows of one shape share its column list, so that a batch of equal payloads is read column by column without
// lookups.

/** Columns of a row, in insertion order. Shapes form a tree: the same columns in the same order are one shape. */
export class RowShape {
  readonly names: readonly string[]
  readonly #places: ReadonlyMap<string, number>
  readonly #wider = new Map<string, RowShape>()
  readonly #tree: { size: number }
  #key: string | undefined

  private constructor(names: readonly string[], tree: { size: number }) {
    this.names = names
    this.#places = new Map(names.map((name, at) => [name, at]))
    this.#tree = tree
  }

  static empty(): RowShape {
    return new RowShape([], { size: 1 })
  }

  place(name: string): number | undefined {
    return this.#places.get(name)
  }

  with(name: string): RowShape {
    const cachedShape = this.#wider.get(name)
    if (cachedShape !== undefined) return cachedShape
    const wider = new RowShape([...this.names, name], this.#tree)
    if (this.#tree.size >= shapesMax) return wider
    this.#tree.size += 1
    this.#wider.set(name, wider)
    return wider
  }

  /** Equal for the same columns in any order. */
  get key(): string {
    this.#key ??= JSON.stringify(this.names.toSorted())
    return this.#key
  }
}

/** Payloads determine the number of shapes: beyond this limit they are not cached. */
const shapesMax = 1_000

/** An absent column keeps its value or gets its default. */
export class Row {
  shape: RowShape
  readonly values: (string | null)[]

  constructor(shape: RowShape, values: (string | null)[] = []) {
    this.shape = shape
    this.values = values
  }

  get(name: string): string | null | undefined {
    const at = this.shape.place(name)
    return at === undefined ? undefined : this.values[at]
  }

  set(name: string, value: string | null): void {
    const at = this.shape.place(name)
    if (at !== undefined) {
      this.values[at] = value
      return
    }
    this.shape = this.shape.with(name)
    this.values.push(value)
  }

  /** Values of the later row win. */
  merge(later: Row): void {
    for (const [at, name] of later.shape.names.entries()) this.set(name, later.values[at]!)
  }
}

/** Rows with the same columns, in order of their first row. */
export function groupByColumns(rows: readonly Row[]): Row[][] {
  const groups = new Map<string, Row[]>()
  for (const row of rows) {
    const group = groups.get(row.shape.key)
    if (group === undefined) groups.set(row.shape.key, [row])
    else group.push(row)
  }
  return [...groups.values()]
}

/** All values of a column, one per row. */
export function columnValues(rows: readonly Row[], name: string): (string | null)[] {
  let shape: RowShape | undefined
  let at = 0
  return rows.map((row) => {
    if (row.shape !== shape) {
      shape = row.shape
      at = shape.place(name)!
    }
    return row.values[at]!
  })
}
