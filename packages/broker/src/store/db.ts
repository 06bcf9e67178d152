// The pool behind `Sql`: search_path, time zone and time limits per connection, transactions on one connection, and look-ups that
// share their way.
import pg from 'pg'
import { parserOf } from './column-values.ts'
import { isOfServer, type Named, NamedQuery, type Result, withOwnStack } from './named-query.ts'
import { createPoolLine, type DatabaseObserver, type PoolLine, timed } from './pool-line.ts'
import { createSharedTrips } from './shared-trips.ts'
import type { Sql } from './sql.ts'
import { inOuterTransaction, inTransaction, type TransactionDeps } from './transactions.ts'

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
  // Without a listener a broken connection would end the process. One that is idle the pool drops by itself; one in use tells its query. From
  // the first moment: the word that ends a session may come with the greeting, before whoever waits for the connection has it.
  pool.on('error', (error) => options.onIdleError?.(error))
  pool.on('connect', (client) => client.on('error', ignore))
  const { observe } = options
  const line = createPoolLine(pool, observe)
  const share = createSharedTrips(line, observe)
  const run: TransactionDeps['run'] = (on, named, begins) => timed(observe, named.name, () => runNamed(on, named, begins))
  const transactions = { line, run, observe }
  return {
    query: (named) => (named.shares === true ? share(named) : runAlone(line, (client) => run(client, named))),
    begin: (work) => inTransaction(transactions, work),
    beginOuter: (work) => inOuterTransaction(transactions, work),
    connect: async () => {
      const connectionString = options.sessionUrl ?? options.url
      const client = new pg.Client({
        ...config,
        options: `${config.options} ${byIndex}`,
        connectionString,
        connectionTimeoutMillis: 10_000,
      })
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

/** The reader's plans are made once, while the log is small, and kept while it grows: reading it whole looks cheap by then and is not. What
 *  must be read whole for want of an index would, being discouraged, look dear enough to be compiled. Made once: for a large table PostgreSQL
 *  expects so many rows behind a cursor it does not know that it would plan every poll anew, which takes three times as long as the poll. */
const byIndex = '-c enable_seqscan=off -c jit=off -c plan_cache_mode=force_generic_plan'

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
    types: { getTypeParser: (oid, format) => (format === 'binary' ? pg.types.getTypeParser(oid, format) : parserOf(oid)) },
  }
}

async function runNamed(on: pg.ClientBase, named: Named, begins = false): Promise<Result> {
  try {
    return await new NamedQuery(named, begins).run(on)
  } catch (error) {
    throw withOwnStack(error)
  }
}

/** One statement on a connection of its own. */
async function runAlone(line: PoolLine, run: (client: pg.ClientBase) => ReturnType<Sql['query']>): ReturnType<Sql['query']> {
  const client = await line.connect()
  let broken: Error | undefined
  try {
    return await run(client)
  } catch (error) {
    broken = isOfServer(error) ? undefined : (error as Error)
    throw error
  } finally {
    client.release(broken)
  }
}

const ignore = (): void => undefined
