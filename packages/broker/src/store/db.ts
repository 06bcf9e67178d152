// The pool behind `Sql`: search_path, time zone and time limits per connection, transactions on one connection, and
// parsers that keep full precision (a timestamp as RFC 3339 text with six digits, a bigint as an exact number).
import pg from 'pg'
import { createPoolLine, type DatabaseObserver, type PoolLine, timed } from './pool-line.ts'
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
  /** Told how long each statement took, and how long its caller waited for a connection. */
  readonly observe?: DatabaseObserver
}
export interface Database extends Sql {
  /** Like begin, but what it hands out may begin again: inner transactions are savepoints of this one, one after the other. */
  beginOuter<T>(work: (tx: Sql) => Promise<T>): Promise<T>
  /** A connection of one's own, outside the pool: the feed's reader and listener. */
  readonly connect: () => Promise<pg.Client>
  readonly pool: {
    readonly total: number
    readonly idle: number
    readonly waiting: number
    /** How long the one who waits longest for a connection has waited; 0: nobody waits. */
    readonly oldestWaitMs: number
  }
  close(): Promise<void>
}

export function openDatabase(options: DatabaseOptions): Database {
  const config = connectionConfig(options)
  const pool = new pg.Pool({ ...config, max: options.poolSize, connectionTimeoutMillis: 10_000, idleTimeoutMillis: 60_000 })
  // Without a listener a broken idle connection would end the process; the pool itself drops it and dials again.
  pool.on('error', (error) => options.onIdleError?.(error))
  const { observe } = options
  const line = createPoolLine(pool, observe)
  const run: RunNamed = (on, named) => timed(observe, named.name, () => runNamed(on, named))
  return {
    query: (named) => runAlone(line, (client) => run(client, named)),
    begin: (work) => inTransaction(line, work, flat(run)),
    beginOuter: (work) => inTransaction(line, work, withSavepoints(run)),
    connect: async () => {
      const client = new pg.Client({ ...config, connectionString: options.sessionUrl ?? options.url, connectionTimeoutMillis: 10_000 })
      // Whoever holds it may listen too; what is lost before they do must not end the process.
      client.on('error', ignore)
      await client.connect()
      return client
    },
    get pool() {
      return { total: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount, oldestWaitMs: line.oldestMs() }
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
    options: `-c search_path="${options.schema}" -c timezone=UTC -c datestyle=ISO -c statement_timeout=${timeoutMs} -c lock_timeout=3000 -c idle_in_transaction_session_timeout=30000`,
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

type RunNamed = (on: pg.ClientBase, named: Parameters<Sql['query']>[0]) => ReturnType<Sql['query']>

/** One statement on a connection of its own. */
async function runAlone(line: PoolLine, run: (client: pg.ClientBase) => ReturnType<Sql['query']>): ReturnType<Sql['query']> {
  const client = await line.connect()
  client.on('error', ignore)
  let broken: Error | undefined
  try {
    return await run(client)
  } catch (error) {
    // PostgreSQL has said no, and the connection is as good as before; anything else has broken it.
    broken = error instanceof Error && 'severity' in error ? undefined : (error as Error)
    throw error
  } finally {
    client.off('error', ignore)
    client.release(broken)
  }
}

/** The handle a transaction hands out. */
type MakeHandle = (client: pg.ClientBase) => Sql

const flat =
  (run: RunNamed): MakeHandle =>
  (client) => ({
    query: (named) => run(client, named),
    begin: () => Promise.reject(new Error('transactions do not nest')),
  })

const withSavepoints =
  (run: RunNamed): MakeHandle =>
  (client) => {
    let last: Promise<unknown> = Promise.resolve()
    return {
      query: (named) => run(client, named),
      begin: (work) => {
        const inner = last.then(() => inSavepoint(client, () => work(flat(run)(client))))
        last = inner.catch(() => undefined)
        return inner
      },
    }
  }

async function inSavepoint<T>(client: pg.ClientBase, work: () => Promise<T>): Promise<T> {
  await client.query('savepoint inner_work')
  try {
    const value = await work()
    await client.query('release savepoint inner_work')
    return value
  } catch (error) {
    await client.query('rollback to savepoint inner_work')
    throw error
  }
}

async function inTransaction<T>(line: PoolLine, work: (tx: Sql) => Promise<T>, handle: MakeHandle): Promise<T> {
  const client = await line.connect()
  // A connection that breaks also tells its query; without a listener the event would end the whole process.
  client.on('error', ignore)
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
    client.off('error', ignore)
    client.release(broken)
  }
}

const ignore = (): void => undefined
