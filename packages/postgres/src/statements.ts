// Defines statements. A statement is defined once, under a name, with slots instead of values, so no value can enter its text. `pg`
// prepares it under that name, once per connection. `row` describes its columns: a test prepares every statement on a migrated database
// and compares them. No code reads `row` at run time.
import type { z } from 'zod'

/** First parameter of every store function: the pool, or the transaction from `begin`. The function works with both. */
export interface Sql {
  query(statement: NamedStatement): Promise<StatementResult>
  /** Uses one connection; commits when `work` resolves and rolls back when it throws. Nested calls throw. */
  begin<T>(work: (tx: Tx) => Promise<T | PendingCommit<T>>): Promise<T>
}

export interface NamedStatement {
  readonly name: string
  readonly text: string
  readonly values: readonly unknown[]
  /** Outside a transaction the query may run on a client that other look-ups use at the same time. */
  readonly isLookUp?: boolean
}
export interface StatementResult {
  readonly rows: unknown[]
  readonly rowCount: number
}

export interface Tx extends Sql {
  /** Sends queries that do not need each other's results, without waiting in between. */
  pipeline<A extends Queries>(buildQueries: (sql: Sql) => readonly [...A]): Promise<QueryResults<A>>
  /** For the return value of the work: sends these queries and the commit without waiting in between. The transaction is committed when
   *  the results arrive, so no result can cancel it; only an error of PostgreSQL does. */
  commitWith<A extends Queries, T>(
    buildQueries: (sql: Sql) => readonly [...A],
    mapResults: (results: QueryResults<A>) => T,
  ): PendingCommit<T>
}
export type Queries = readonly Promise<unknown>[]
export type QueryResults<A extends Queries> = { -readonly [K in keyof A]: Awaited<A[K]> }

/** The last queries of a transaction, not sent yet. */
export class PendingCommit<T> {
  /** Sends the queries and then calls `commit`, which must send the commit at once. */
  readonly send: (commit: () => Promise<void>) => Promise<T>

  constructor(send: PendingCommit<T>['send']) {
    this.send = send
  }
}

export type Slots<P> = { readonly [K in keyof P]-?: Slot }
/** Prints as $1, $2 … in the order of first use. */
export interface Slot {
  toString(): string
}
type Text<P> = (p: Slots<P>) => string
export type Statement<P, Out> = ((sql: Sql, params: P) => Promise<Out>) & {
  readonly statement: { readonly name: string; readonly text: string; readonly row?: z.ZodType }
}

export function rows<P, Row>(name: string, row: z.ZodType<Row>, text: Text<P>): Statement<P, Row[]> {
  return define(name, text, { row, read: (result) => result.rows as Row[] })
}

/** Throws unless the statement returns exactly one row. */
export function one<P, Row>(name: string, row: z.ZodType<Row>, text: Text<P>): Statement<P, Row> {
  return define(name, text, {
    row,
    read: (result) => {
      if (result.rows.length !== 1) throw new Error(`statement ${name} returned ${result.rows.length} rows instead of one`)
      return result.rows[0] as Row
    },
  })
}

/** Throws if the statement returns two rows. */
export function maybe<P, Row>(name: string, row: z.ZodType<Row>, text: Text<P>): Statement<P, Row | null> {
  return define(name, text, { row, read: (result) => readAtMostOne(name, result) as Row | null })
}

/** Like `maybe`, for a short read by key. Look-ups of concurrent calls share a connection, so a slow one delays the others. */
export function lookUp<P, Row>(name: string, row: z.ZodType<Row>, text: Text<P>): Statement<P, Row | null> {
  return define(name, text, { row, read: (result) => readAtMostOne(name, result) as Row | null, isLookUp: true })
}

/** Returns the number of changed rows. */
export function count<P>(name: string, text: Text<P>): Statement<P, number> {
  return define(name, text, { read: (result) => result.rowCount })
}

function readAtMostOne(name: string, result: StatementResult): unknown {
  if (result.rows.length > 1) throw new Error(`statement ${name} returned ${result.rows.length} rows instead of one or none`)
  return result.rows[0] ?? null
}

interface Reading<Out> {
  readonly row?: z.ZodType
  readonly read: (result: StatementResult) => Out
  readonly isLookUp?: boolean
}

function define<P, Out>(name: string, buildText: Text<P>, { row, read, isLookUp = false }: Reading<Out>): Statement<P, Out> {
  const order: string[] = []
  const text = buildText(createSlots(order) as Slots<P>)
  const run = async (sql: Sql, params: P): Promise<Out> => {
    const values = order.map((key) => (params as Record<string, unknown>)[key] ?? null)
    return read(await sql.query({ name, text, values, isLookUp }))
  }
  return Object.assign(run, { statement: { name, text, ...(row === undefined ? {} : { row }) } })
}

function createSlots(order: string[]): object {
  return new Proxy(
    {},
    {
      get: (_, key) => {
        if (typeof key !== 'string') return undefined
        if (!order.includes(key)) order.push(key)
        const slot = `$${order.indexOf(key) + 1}`
        return { toString: () => slot }
      },
    },
  )
}

/** Types that the driver cannot fail to serialize. It serializes values after it has sent Parse: if that throws on the first use of a
 *  name, the name stays unusable on the connection. */
export type Parameter = string | number | boolean | Buffer | null | readonly Parameter[]

/** Throws for a value without a text form, such as a function or a circular object. Objects become JSON. */
export const toParameters = (values: readonly unknown[]): Parameter[] => values.map(toParameter)

function toParameter(value: unknown): Parameter {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return value
  if (value === undefined || value === null) return null
  if (typeof value === 'bigint') return String(value)
  if (typeof value === 'object') return toObjectParameter(value)
  throw new TypeError(`a ${typeof value} cannot be a parameter of a statement`)
}

function toObjectParameter(value: object): Parameter {
  if (Buffer.isBuffer(value)) return value
  if (ArrayBuffer.isView(value)) return Buffer.from(value.buffer, value.byteOffset, value.byteLength)
  if (Array.isArray(value)) return toParameters(value)
  if (value instanceof Date) return value.toISOString()
  return JSON.stringify(value)
}
