// The database of a broker, ready to be used: reachable, no standby, migrated, and with a ring of keys that opens what it
// holds. Shared by the server and by the commands that work on the database directly.
import { ApiError } from '@brokkr/contract/error.ts'
import { backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import type { Secret } from '@brokkr/runtime/secret.ts'
import { checkKeys } from './check-keys.ts'
import type { BrokerConfig } from './config.ts'
import { observeDatabase, showPool } from './database-metrics.ts'
import { fromDatabase } from './http/database-error.ts'
import { createSeal, type Seal } from './seal.ts'
import { type Database, openDatabase } from './store/db.ts'
import { type MigrationOutcome, migrate } from './store/migrate.ts'

export interface Store {
  readonly database: Database
  readonly seal: Seal
}
interface StoreDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics?: Metrics
}

/** Waits 30 s for a database that is on its way up. `firstRows` runs once the schema is there. */
export async function openStore(deps: StoreDeps, config: BrokerConfig, firstRows: (sql: Database) => Promise<void>): Promise<Store> {
  const { version, applied } = await migrated(deps, config)
  deps.log.info('schema ready', { version, applied })
  const database = openPool(config, { ...deps, poolSize: config.database.pool_size })
  try {
    await firstRows(database)
    const seal = sealOf(config)
    await checkKeys({ sql: database, seal })
    return { database, seal }
  } catch (error) {
    await database.close()
    throw error
  }
}

export const openPool = (
  { database, feed }: BrokerConfig,
  { poolSize, log, metrics }: { poolSize: number; log: Log; metrics?: Metrics },
): Database => {
  const opened = openDatabase({
    url: database.url.reveal(),
    ...(feed.listen_url === null ? {} : { sessionUrl: feed.listen_url.reveal() }),
    schema: database.schema,
    poolSize,
    // One line per connection would be a storm; the feed says once that the database has gone.
    onIdleError: (error) => log.debug('idle database connection lost', { error }),
    ...(metrics === undefined ? {} : { observe: observeDatabase(metrics) }),
  })
  if (metrics !== undefined) showPool(metrics, opened)
  return opened
}

export const sealOf = (config: BrokerConfig): Seal => createSeal(keysOf(config))

const waitMs = 30_000

export async function migrated({ clock, log }: StoreDeps, { database }: BrokerConfig): Promise<MigrationOutcome> {
  const startedMs = clock.monotonicMs()
  for (let failures = 1; ; failures += 1) {
    try {
      return await migrate(database.url.reveal(), { schema: database.schema })
    } catch (error) {
      const isLate = clock.monotonicMs() - startedMs > waitMs
      if (isLate || !isOnItsWay(error)) throw error
      if (failures === 1) log.warn('the database is not available; waiting for it', { error: error as Error, wait_seconds: waitMs / 1000 })
      await clock.sleep(backoffDelayMs({ baseMs: 100, maxMs: 2000, jitter: 'equal' }, failures))
    }
  }
}

/** Away or starting up; a wrong password or a missing database does not mend itself. */
const isOnItsWay = (error: unknown): boolean => {
  const known = fromDatabase(error)
  return known instanceof ApiError && known.code === 'database_unavailable'
}

function keysOf({ broker }: BrokerConfig): [Buffer, ...Buffer[]] {
  const key = (hex: Secret) => Buffer.from(hex.reveal(), 'hex')
  const sealing = broker.encryption_key ?? broker.webhook_encryption_key
  if (sealing === null) throw new Error('broker.encryption_key is missing')
  return [key(sealing), ...broker.encryption_keys_previous.map(key)]
}
