// The statement helper. A statement is defined once, under a name, with slots instead of values, so no value can get
// into its text; `pg` prepares it under that name, once per connection. `row` is the promise about its columns, held by
// a test that prepares every statement against a migrated database; nothing reads it at run time.
import type { z } from 'zod'

/** What every store function takes first: the pool, or the transaction that `begin` handed out; the callee cannot tell. */
export interface Sql {
  query(named: NamedStatement): Promise<{ rows: unknown[]; rowCount: number }>
  /** One connection, commit at the end, rollback on a throw. `work` gets the handle to pass on; begin on that handle throws. */
  begin<T>(work: (tx: Tx) => Promise<T | Ending<T>>): Promise<T>
}

/** Inside a transaction, statements that do not need each other's answers may share a trip: `ask` asks for all of them at once. */
export interface Tx extends Sql {
  together<A extends Asked>(ask: (sql: Sql) => readonly [...A]): Promise<Answers<A>>
  /** To return from the work: these and the commit share a trip. Nothing may be refused for what they answer: only what PostgreSQL
   *  refuses is taken back. */
  last<A extends Asked, T>(ask: (sql: Sql) => readonly [...A], told: (answers: Answers<A>) => T): Ending<T>
}
export type Asked = readonly Promise<unknown>[]
export type Answers<A extends Asked> = { -readonly [K in keyof A]: Awaited<A[K]> }

/** The last statements of a transaction, which have not left yet. */
export class Ending<T> {
  /** Sends them, and this one behind them; gives what they are told as once all of them are answered. */
  readonly leave: (behind?: NamedStatement) => Promise<T>

  constructor(leave: Ending<T>['leave']) {
    this.leave = leave
  }
}

export interface NamedStatement {
  readonly name: string
  readonly text: string
  readonly values: unknown[]
  /** Outside a transaction it may share its round trip with others. */
  readonly shares?: boolean
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
  return define(name, text, row, (result) => result.rows as Row[])
}

/** Exactly one row; none or two are a bug of the statement. */
export function one<P, Row>(name: string, row: z.ZodType<Row>, text: Text<P>): Statement<P, Row> {
  return define(name, text, row, (result) => {
    if (result.rows.length !== 1) throw new Error(`statement ${name} returned ${result.rows.length} rows instead of one`)
    return result.rows[0] as Row
  })
}

export function maybe<P, Row>(name: string, row: z.ZodType<Row>, text: Text<P>): Statement<P, Row | null> {
  return define(name, text, row, (result) => atMostOne(name, result) as Row | null)
}

function atMostOne(name: string, { rows: found }: Result): unknown {
  if (found.length > 1) throw new Error(`statement ${name} returned ${found.length} rows instead of one or none`)
  return found[0] ?? null
}

/** Like `maybe`, for what is read by key in a moment and changes nothing: calls that ask at the same time share a round trip. */
export function lookUp<P, Row>(name: string, row: z.ZodType<Row>, text: Text<P>): Statement<P, Row | null> {
  return define(name, text, row, (result) => atMostOne(name, result) as Row | null, true)
}

/** How many rows were changed. */
export function count<P>(name: string, text: Text<P>): Statement<P, number> {
  return define(name, text, undefined, (result) => result.rowCount)
}

type Result = Awaited<ReturnType<Sql['query']>>

function define<P, Out>(
  name: string,
  text: Text<P>,
  row: z.ZodType | undefined,
  read: (result: Result) => Out,
  shares = false,
): Statement<P, Out> {
  const order: string[] = []
  const statementText = text(slotsInto(order) as Slots<P>)
  const run = async (sql: Sql, params: P): Promise<Out> => {
    const values = order.map((key) => (params as Record<string, unknown>)[key] ?? null)
    return read(await sql.query({ name, text: statementText, values, shares }))
  }
  return Object.assign(run, { statement: { name, text: statementText, ...(row === undefined ? {} : { row }) } })
}

function slotsInto(order: string[]): object {
  return new Proxy(
    {},
    {
      get: (_, key) => {
        if (typeof key !== 'string') return undefined
        if (!order.includes(key)) order.push(key)
        const place = `$${order.indexOf(key) + 1}`
        return { toString: () => place }
      },
    },
  )
}

/** A row's time of change, always another than before: whoever holds the earlier one can tell. */
export const touched = `updated_at = greatest(now(), updated_at + interval '1 microsecond')`

/** Where a page begins: behind this key, in the order of the list. */
export interface NameKey {
  readonly after_name: string
  readonly after_id: string
}
export interface TimeKey {
  readonly after_at: string
  readonly after_id: string
}
