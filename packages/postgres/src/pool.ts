// The connection pool behind `Sql`: search path, time zone and time limits of each connection, transactions, and shared look-ups.
import pg from 'pg'
import { PoolExhausted } from './errors.ts'
import { type ClientQueue, type DatabaseObserver, PipelinedClient, type PooledClient, runAlone, SharedClients } from './pipelining.ts'
import type { Sql } from './statements.ts'
import { runOuterTransaction, runTransaction } from './transactions.ts'

export interface DatabaseOptions {
  readonly url: string
  /** Address for `connect`, past a pooler that would break LISTEN. The same as `url` if left out. */
  readonly sessionUrl?: string
  readonly schema: string
  readonly poolSize: number
  readonly statementTimeoutMs?: number
  /** Limit for opening a connection, and for waiting for one of the pool. */
  readonly connectTimeoutMs?: number
  readonly applicationName?: string
  readonly onIdleError?: (error: Error) => void
  readonly observe?: DatabaseObserver
}
export interface Database extends Sql {
  /** Like `begin`, with a handle that can begin inner transactions: savepoints of this one, one after the other. */
  beginOuter<T>(work: (sql: Sql) => Promise<T>): Promise<T>
  /** Opens a connection outside the pool, for the reader and the listener of the change feed. */
  readonly connect: () => Promise<PipelinedClient>
  readonly pool: {
    readonly total: number
    readonly idle: number
    readonly waiting: number
    /** Longest time that a caller has been waiting for a connection; 0 if no caller waits. */
    readonly oldestWaitMs: number
  }
  close(): Promise<void>
}

export function openDatabase(options: DatabaseOptions): Database {
  const config = buildConnectionConfig(options)
  const pool = new pg.Pool({
    ...config,
    Client: PipelinedClient,
    max: options.poolSize,
    idleTimeoutMillis: 60_000,
  })
  // An error event without a listener would end the process. The pool removes a broken idle connection; a broken connection in use fails
  // its queries. The client needs its listener from the start: a server can end the session before the caller has received the client.
  pool.on('error', (error) => options.onIdleError?.(error))
  pool.on('connect', (client) => client.on('error', ignore))
  const { observe } = options
  const queue = createClientQueue(pool, observe)
  const lookUps = new SharedClients(queue, observe)
  return {
    query: (statement) => (statement.isLookUp === true ? lookUps.query(statement) : runAlone(queue, statement, observe)),
    begin: (work) => runTransaction({ queue, observe }, work),
    beginOuter: (work) => runOuterTransaction({ queue, observe }, work),
    connect: () => connectAlone({ ...config, connectionString: options.sessionUrl ?? options.url }),
    get pool() {
      return { total: pool.totalCount, idle: pool.idleCount, waiting: pool.waitingCount, oldestWaitMs: queue.oldestWaitMs() }
    },
    close: () => pool.end(),
  }
}

/** For statements over the change log. Their plans are made once, while the log is small, and kept while it grows: by then a sequential
 *  scan looks cheap and is not. JIT compilation would start because a discouraged scan looks expensive. A custom plan per poll takes three
 *  times as long as the poll. */
const indexOptions = '-c enable_seqscan=off -c jit=off -c plan_cache_mode=force_generic_plan'

async function connectAlone(config: pg.ClientConfig): Promise<PipelinedClient> {
  const client = new PipelinedClient({
    ...config,
    options: `${config.options} ${indexOptions}`,
  })
  // The caller may add its own listener later; an earlier error must not end the process.
  client.on('error', ignore)
  await client.connect()
  return client
}

export const schemaPattern = /^[A-Za-z][A-Za-z0-9_]{0,62}$/

/** Without `pipeline`. Time limits are the server's: a limit of the driver would destroy the connection with all queries in flight on it. */
export function buildConnectionConfig(options: Omit<DatabaseOptions, 'poolSize'>): pg.ClientConfig {
  if (!schemaPattern.test(options.schema)) throw new Error(`schema name ${JSON.stringify(options.schema)} must match ${schemaPattern}`)
  const timeoutMs = options.statementTimeoutMs ?? 15_000
  return {
    connectionString: options.url,
    application_name: options.applicationName ?? 'brokkr',
    keepAlive: true,
    // Without it, the first probe of an idle connection is sent after two hours.
    keepAliveInitialDelayMillis: 10_000,
    connectionTimeoutMillis: options.connectTimeoutMs ?? 10_000,
    options: `-c search_path="${options.schema}" -c timezone=UTC -c datestyle=ISO -c statement_timeout=${timeoutMs} -c lock_timeout=3000 -c idle_in_transaction_session_timeout=30000`,
    types: { getTypeParser: (oid, format) => (format === 'binary' ? pg.types.getTypeParser(oid, format) : findColumnParser(oid)) },
  }
}

type ColumnParser = (text: string) => unknown

const findColumnParser = (typeId: number): ColumnParser =>
  columnParsers.get(typeId) ?? (pg.types.getTypeParser(typeId, 'text') as ColumnParser)

const columnParsers = new Map<number, ColumnParser>([
  [pg.types.builtins.TIMESTAMPTZ, parseTimestamp],
  [pg.types.builtins.INT8, parseExactInteger],
])

/** `2026-01-02 03:04:05.1+00` → `2026-01-02T03:04:05.100000Z`. Connections use UTC, so the offset is always +00. */
function parseTimestamp(text: string): string {
  const fraction = text.slice(20, -3)
  return `${text.slice(0, 10)}T${text.slice(11, 19)}.${fraction.padEnd(6, '0')}Z`
}

function parseExactInteger(text: string): number {
  const value = Number(text)
  if (!Number.isSafeInteger(value)) throw new RangeError(`integer ${text} does not fit a JSON number exactly`)
  return value
}

function createClientQueue(pool: pg.Pool, observe: DatabaseObserver | undefined): ClientQueue & { oldestWaitMs(): number } {
  // A set keeps the order in which the callers came.
  const waits = new Set<{ readonly sinceMs: number }>()
  return {
    connect: async () => {
      const wait = { sinceMs: performance.now() }
      waits.add(wait)
      try {
        return (await pool.connect()) as unknown as PooledClient
      } catch (error) {
        throw pool.totalCount >= (pool.options.max ?? 0) && pool.waitingCount > 0 ? new PoolExhausted({ cause: error }) : error
      } finally {
        waits.delete(wait)
        observe?.wait(performance.now() - wait.sinceMs)
      }
    },
    get waiting() {
      return pool.waitingCount
    },
    oldestWaitMs: () => {
      const [oldest] = waits
      return oldest === undefined ? 0 : performance.now() - oldest.sinceMs
    },
  }
}

const ignore = (): void => undefined
