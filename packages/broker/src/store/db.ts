// The pool behind `Sql`: search_path, time zone and time limits per connection, transactions on one connection, and
// parsers that keep full precision (a timestamp as RFC 3339 text with six digits, a bigint as an exact number).
import pg from 'pg'
import type { Sql } from './sql.ts'

export interface DatabaseOptions {
  readonly url: string
  /** Where `connect` goes: past a pooler that would break LISTEN; the same as `url` when left out. */
  readonly sessionUrl?: string
  readonly schema: string
  readonly poolSize: number
  readonly statementTimeoutMs?: number
  readonly applicationName?: string
  readonly onIdleError?: (error: Error) => void
}
export interface Database extends Sql {
  /** Like begin, but what it hands out may begin again: inner transactions are savepoints of this one, one after the other. */
  beginOuter<T>(work: (tx: Sql) => Promise<T>): Promise<T>
  /** A connection of one's own, outside the pool: the feed's reader and listener. */
  readonly connect: () => Promise<pg.Client>
  readonly pool: { readonly total: number; readonly idle: number; readonly waiting: number }
  close(): Promise<void>
}

export function openDatabase(options: DatabaseOptions): Database {
  const config = connectionConfig(options)
  const pool = new pg.Pool({ ...config, max: options.poolSize, connectionTimeoutMillis: 10_000, idleTimeoutMillis: 60_000 })
  // Without a listener a broken idle connection would end the process; the pool itself drops it and dials again.
  pool.on('error', (error) => options.onIdleError?.(error))
  return {
    query: (named) => runNamed(pool, named),
    begin: (work) => inTransaction(pool, work, flat),
    beginOuter: (work) => inTransaction(pool, work, withSavepoints),
    connect: async () => {
      const client = new pg.Client({ ...config, connectionString: options.sessionUrl ?? options.url, connectionTimeoutMillis: 10_000 })
      await client.connect()
      return client
    },
    get pool() {
      return { total: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount }
    },
    close: () => pool.end(),
  }
}

/** A connection as a `Sql` whose statements run in the order given: for whoever holds a connection of its own. */
export function sqlOn(client: pg.Client): Sql {
  return { query: (named) => runNamed(client, named), begin: () => Promise.reject(new Error('no transactions on a shared connection')) }
}

export const schemaPattern = /^[A-Za-z][A-Za-z0-9_]{0,62}$/

export function connectionConfig(options: Omit<DatabaseOptions, 'poolSize'>): pg.ClientConfig {
  if (!schemaPattern.test(options.schema)) throw new Error(`schema name ${JSON.stringify(options.schema)} must match ${schemaPattern}`)
  const timeoutMs = options.statementTimeoutMs ?? 15_000
  return {
    connectionString: options.url,
    application_name: options.applicationName ?? 'brokkr',
    keepAlive: true,
    options: `-c search_path=${options.schema} -c timezone=UTC -c datestyle=ISO -c statement_timeout=${timeoutMs} -c lock_timeout=3000 -c idle_in_transaction_session_timeout=30000`,
    types: { getTypeParser: (oid, format) => parsers.get(oid) ?? pg.types.getTypeParser(oid, format) },
  }
}

const parsers = new Map<number, (text: string) => unknown>([
  [pg.types.builtins.TIMESTAMPTZ, rfc3339],
  [pg.types.builtins.INT8, exactNumber],
])

/** `2026-01-02 03:04:05.1+00` → `2026-01-02T03:04:05.100000Z`; connections run in UTC, so the offset is always +00. */
export function rfc3339(text: string): string {
  const fraction = text.slice(20, -3)
  return `${text.slice(0, 10)}T${text.slice(11, 19)}.${fraction.padEnd(6, '0')}Z`
}

function exactNumber(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new RangeError(`integer ${text} does not fit a JSON number exactly`)
  return value
}

async function runNamed(on: pg.Pool | pg.ClientBase, named: { name: string; text: string; values: unknown[] }) {
  const result = await on.query(named)
  return { rows: result.rows as unknown[], rowCount: result.rowCount ?? 0 }
}

/** The handle a transaction hands out. */
type MakeHandle = (client: pg.ClientBase) => Sql

const flat: MakeHandle = (client) => ({
  query: (named) => runNamed(client, named),
  begin: () => Promise.reject(new Error('transactions do not nest')),
})

const withSavepoints: MakeHandle = (client) => {
  let last: Promise<unknown> = Promise.resolve()
  return {
    query: (named) => runNamed(client, named),
    begin: (work) => {
      const run = last.then(() => inSavepoint(client, work))
      last = run.catch(() => undefined)
      return run
    },
  }
}

async function inSavepoint<T>(client: pg.ClientBase, work: (tx: Sql) => Promise<T>): Promise<T> {
  await client.query('savepoint inner_work')
  try {
    const value = await work(flat(client))
    await client.query('release savepoint inner_work')
    return value
  } catch (error) {
    await client.query('rollback to savepoint inner_work')
    throw error
  }
}

async function inTransaction<T>(pool: pg.Pool, work: (tx: Sql) => Promise<T>, handle: MakeHandle): Promise<T> {
  const client = await pool.connect()
  let broken: Error | undefined
  try {
    await client.query('begin')
    const value = await work(handle(client))
    await client.query('commit')
    return value
  } catch (error) {
    // A connection that cannot even roll back is not given to anybody else.
    broken = await client.query('rollback').then(
      () => undefined,
      (failed: Error) => failed,
    )
    throw error
  } finally {
    client.release(broken)
  }
}
