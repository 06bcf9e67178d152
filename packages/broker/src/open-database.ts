// Opens the broker's database: waits until it is available, migrates the schema, opens connection pools. Shared by the server and by
// commands that work on the database directly.
import { ApiError } from '@brokkr/contract/errors.ts'
import { type Database, type DatabaseObserver, openDatabase } from '@brokkr/postgres'
import { backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { FastHistogram, Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import type { Secret } from '@brokkr/runtime/secret.ts'
import type { BrokerConfig } from './config.ts'
import { toDatabaseError } from './http/response/database-error.ts'
import { type MigrationOutcome, migrate } from './schema/migrate.ts'
import { createSeal, type Seal } from './seal.ts'

const availableTimeoutMs = 30_000

/** Waits up to 30 s for a database that is starting, then migrates it. */
export async function migrateWhenAvailable(
  { clock, log }: { clock: Clock; log: Log },
  { database }: BrokerConfig,
): Promise<MigrationOutcome> {
  const startedMs = clock.monotonicMs()
  for (let failures = 1; ; failures += 1) {
    try {
      return await migrate(database.url.reveal(), { schema: database.schema })
    } catch (error) {
      const isLate = clock.monotonicMs() - startedMs > availableTimeoutMs
      if (isLate || !isUnavailable(error)) throw error
      if (failures === 1)
        log.warn('the database is not available; waiting for it', { error: error as Error, wait_seconds: availableTimeoutMs / 1000 })
      await clock.sleep(backoffDelayMs({ baseMs: 100, maxMs: 2000, jitter: 'equal' }, failures))
    }
  }
}

/** Unreachable or starting. A wrong password or a missing database needs an operator, so these errors end the start. */
const isUnavailable = (error: unknown): boolean => {
  const databaseError = toDatabaseError(error)
  return databaseError instanceof ApiError && databaseError.code === 'database_unavailable'
}

export function openPool(
  { database, feed }: BrokerConfig,
  { poolSize, log, metrics }: { poolSize: number; log: Log; metrics?: Metrics },
): Database {
  const pool = openDatabase({
    url: database.url.reveal(),
    ...(feed.listen_url === null ? {} : { sessionUrl: feed.listen_url.reveal() }),
    schema: database.schema,
    poolSize,
    // Every connection fails when the database goes away; the change feed logs that once.
    onIdleError: (error) => log.debug('idle database connection lost', { error }),
    ...(metrics === undefined ? {} : { observe: observeDatabase(metrics) }),
  })
  if (metrics !== undefined) showPool(metrics, pool)
  return pool
}

/** Encrypts with broker.encryption_key and decrypts with that key and the previous ones. */
export function createConfiguredSeal({ broker }: BrokerConfig): Seal {
  const decode = (hex: Secret) => Buffer.from(hex.reveal(), 'hex')
  const currentKey = broker.encryption_key ?? broker.webhook_encryption_key
  if (currentKey === null) throw new Error('broker.encryption_key is missing')
  return createSeal([decode(currentKey), ...broker.encryption_keys_previous.map(decode)])
}

// Database metrics: duration per statement, wait for a connection, and the state of the pool.

const bucketsSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 1, 5, 15]

function observeDatabase(metrics: Metrics): DatabaseObserver {
  const queries = new Map<string, FastHistogram>()
  const tallyOf = (name: string) =>
    metrics.tally('brokkr_db_query_duration_seconds', 'Duration of statements by name', { name }, bucketsSeconds)
  const waits = metrics.tally('brokkr_db_wait_seconds', 'Wait for a connection from the pool', {}, bucketsSeconds)
  return {
    query: (name, ms) => {
      let tally = queries.get(name)
      if (tally === undefined) queries.set(name, (tally = tallyOf(name)))
      tally.observe(ms / 1000)
    },
    wait: (ms) => waits.observe(ms / 1000),
  }
}

function showPool(metrics: Metrics, database: Pick<Database, 'pool'>): void {
  const connections = metrics.gauge('brokkr_db_pool', 'Number of connections in the pool and of callers that wait for one', ['state'])
  metrics.beforeScrape(() => {
    const { total, idle, waiting } = database.pool
    connections.set({ state: 'busy' }, total - idle)
    connections.set({ state: 'idle' }, idle)
    connections.set({ state: 'waiting' }, waiting)
  })
}
