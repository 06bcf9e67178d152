// One named statement on its way over a connection, in place of the driver's own: its messages leave in one write, and its columns
// are asked for once per connection, since a prepared statement cannot change them; once they are known, bytea comes as bytes. Several
// may leave in one write, as a train; each ends with a Sync of its own, so that one that fails takes nobody with it.
import pg from 'pg'
import { type Answered, AnswerTap } from './answer-tap.ts'
import { type ParseColumn, parserOf } from './column-values.ts'
import { beginBytes, statementBytes, type WireValue, wireValuesOf } from './wire.ts'

export interface Named {
  readonly name: string
  readonly text: string
  readonly values: readonly unknown[]
}
export interface Result {
  readonly rows: unknown[]
  readonly rowCount: number
}

/** What the driver keeps of a connection: the statements that PostgreSQL has taken, by name. */
type Connection = pg.Connection & { readonly parsedStatements: Readonly<Record<string, string | undefined>> }
interface Columns {
  readonly names: readonly string[]
  readonly parsers: readonly ParseColumn[]
  readonly isBytes: readonly boolean[]
  /** A row of nulls: its copies have their shape from the start. */
  readonly blank: Readonly<Record<string, unknown>>
}
/** What is known of a connection. */
interface Known {
  readonly columns: Map<string, Columns>
  readonly tap: AnswerTap
}
const byteaType: number = pg.types.builtins.BYTEA
const knownOn = new WeakMap<pg.Connection, Known>()

/** The driver calls `submit`, and then one method per message of the answer. */
export class NamedQuery implements pg.Submittable, Answered {
  readonly name: string
  readonly text: string
  readonly result: Promise<Result>
  readonly #values: readonly WireValue[]
  /** Begins a transaction on the way; the connection must know how. */
  readonly #begins: boolean
  readonly #settle = Promise.withResolvers<Result>()
  readonly #rows: unknown[] = []
  #rowCount = 0
  #known: Map<string, Columns> | undefined
  #columns: Columns | undefined
  /** Its columns were known when it left. */
  #getsBytes = false
  #fault: unknown = null
  #client: pg.ClientBase | null = null
  /** Itself and those behind it; of the first one alone. */
  #train: readonly NamedQuery[] = []
  #next: NamedQuery | null = null
  #isSent = false

  constructor({ name, text, values }: Named, begins = false) {
    if (name === '') throw new Error('a statement needs a name: its columns are kept under it')
    this.name = name
    this.text = text
    this.#values = wireValuesOf(values)
    this.#begins = begins
    this.result = this.#settle.promise
  }

  /** Sends it, and behind it in the same write `others`, which the connection must know. */
  run(client: pg.ClientBase, others: readonly NamedQuery[] = []): Promise<Result> {
    this.#train = [this, ...others]
    for (let at = 1; at < this.#train.length; at += 1) this.#train[at - 1]!.#pull(this.#train[at]!, client)
    client.query(this)
    return this.result
  }

  #pull(next: NamedQuery, client: pg.ClientBase): void {
    this.#client = client
    this.#next = next
  }

  submit(connection: pg.Connection): Error | null {
    // A wagon of a train whose bytes have left: it is the driver's turn to read its answer, no more.
    if (this.#isSent) return null
    const { parsedStatements } = connection as Connection
    const isNew = parsedStatements[this.name] === undefined
    if (!isNew && parsedStatements[this.name] !== this.text) return new Error(`two statements are called ${this.name}`)
    const known = knownOf(connection)
    const pieces = this.#train.map((each) => each.#leave(known, each === this && isNew))
    if (this.#begins) pieces.unshift(beginBytes)
    known.tap.expect(this.#train)
    // A connection that has gone tells everybody who waits on it.
    if (connection.stream.writable) connection.stream.write(pieces.length === 1 ? pieces[0] : Buffer.concat(pieces))
    return null
  }

  #leave({ columns }: Known, isNew: boolean): Buffer {
    this.#isSent = true
    this.#known = columns
    this.#columns = columns.get(this.name)
    this.#getsBytes = this.#columns !== undefined
    const { name, text } = this
    return statementBytes({ name, text, values: this.#values, isNew, asksColumns: !this.#getsBytes, bytesOf: this.#columns?.isBytes ?? [] })
  }

  handleRowDescription({ fields }: { fields: readonly pg.FieldDef[] }): void {
    const names = fields.map(({ name }) => name)
    this.#columns = {
      names,
      parsers: fields.map(({ dataTypeID }) => parserOf(dataTypeID)),
      isBytes: fields.map(({ dataTypeID }) => dataTypeID === byteaType),
      blank: Object.fromEntries(names.map((name) => [name, null])),
    }
    this.#known?.set(this.name, this.#columns)
  }

  takeRow(bytes: Buffer, start: number): void {
    const { names, parsers, isBytes, blank } = this.#columns ?? noColumns
    const row: Record<string, unknown> = { ...blank }
    try {
      let at = start + 2
      for (let column = 0; column < names.length; column += 1) {
        const length = bytes.readInt32BE(at)
        at += 4
        if (length < 0) continue // null, as it stands there
        const end = at + length
        const isCopied = this.#getsBytes && isBytes[column]!
        row[names[column]!] = isCopied ? Buffer.from(bytes.subarray(at, end)) : parsers[column]!(bytes.toString('utf8', at, end))
        at = end
      }
      this.#rows.push(row)
    } catch (error) {
      this.#fault ??= error
    }
  }

  /** Rows come by `takeRow`. */
  handleDataRow(): void {}

  handleCommandComplete({ text }: { text: string }): void {
    this.#rowCount = Number(text.slice(text.lastIndexOf(' ') + 1)) || 0
  }

  /** The connection is free again. */
  handleReadyForQuery(): void {
    if (this.#columns === undefined) this.#known?.set(this.name, noColumns)
    if (this.#fault === null) this.#settle.resolve({ rows: this.#rows, rowCount: this.#rowCount })
    else this.#settle.reject(this.#fault)
    if (this.#next !== null) this.#client?.query(this.#next)
  }

  handleError(error: unknown): void {
    this.#settle.reject(error)
    if (this.#next === null) return
    // PostgreSQL goes on behind the next Sync; a connection that broke answers nobody.
    if (isOfServer(error)) this.#client?.query(this.#next)
    else this.#next.handleError(error)
  }

  handleEmptyQuery(): void {}
  handlePortalSuspended(): void {}
  handleCopyData(): void {}
  handleCopyInResponse(): void {}
}

/** Whether a connection has run a statement before, and so has it prepared. */
export const knows = (client: pg.ClientBase, name: string): boolean => knownOn.get(connectionOf(client))?.columns.has(name) === true

const noColumns: Columns = { names: [], parsers: [], isBytes: [], blank: {} }

function knownOf(connection: pg.Connection): Known {
  const known = knownOn.get(connection) ?? { columns: new Map(), tap: new AnswerTap(connection.stream) }
  knownOn.set(connection, known)
  return known
}

const connectionOf = (client: pg.ClientBase): pg.Connection => (client as unknown as { connection: pg.Connection }).connection

/** An error is made where bytes arrive; who asked is more use to who reads it. */
export function withOwnStack(error: unknown): unknown {
  if (error instanceof Error) Error.captureStackTrace(error, withOwnStack)
  return error
}

/** PostgreSQL has said no, and the connection is as good as before. */
export const isOfServer = (error: unknown): error is Error => error instanceof Error && 'severity' in error
