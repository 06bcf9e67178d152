// Applies one migration while brokers use the same database. It runs in a transaction with a short lock timeout, because later statements
// wait behind its lock requests. A migration that builds or drops an index runs outside a transaction.
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'

export interface Migration {
  readonly version: number
  readonly name: string
  readonly text: string
  readonly checksum: string
}

/** Below the lock timeout of the broker's own statements (3 s), so that a call that waits behind a migration still succeeds. */
const lockTimeoutMs = 1_000
const attemptsMax = 300
const pauseMs = 500

export async function applyMigration(client: pg.Client, migration: Migration): Promise<void> {
  try {
    const index = findConcurrentIndex(migration)
    if (index === null) await applyInTransaction(client, migration)
    else await applyConcurrently(client, migration, index)
  } catch (cause) {
    throw new Error(`migration ${migration.name} failed: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
  }
}

async function applyInTransaction(client: pg.Client, migration: Migration): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await client.query('begin')
      await client.query(`set local lock_timeout = ${lockTimeoutMs}`)
      await client.query(migration.text)
      await record(client, migration)
      await client.query('commit')
      return
    } catch (error) {
      await client.query('rollback').catch(() => undefined)
      if (!isLockTimeout(error) || attempt === attemptsMax) throw error
      // Lets statements run that waited behind this one.
      await sleep(pauseMs)
    }
  }
}

/** An index that an interrupted attempt left invalid is dropped first. Recorded afterwards, so the statement may run twice. */
async function applyConcurrently(client: pg.Client, migration: Migration, index: string): Promise<void> {
  const { rowCount } = await client.query('select from pg_index where indexrelid = to_regclass($1) and not indisvalid', [index])
  if (rowCount !== 0) await client.query(`drop index concurrently ${pg.escapeIdentifier(index)}`)
  await client.query(migration.text)
  await record(client, migration)
}

const record = (client: pg.Client, { version, checksum }: Migration): Promise<unknown> =>
  client.query('insert into schema_migrations (version, checksum) values ($1, $2)', [version, checksum])

/** Pure: the index that a migration builds or drops concurrently; null for others. Such a file contains only that statement. */
export function findConcurrentIndex({ name, text }: Pick<Migration, 'name' | 'text'>): string | null {
  const statement = text.replaceAll(/^\s*--.*$/gm, '').trim()
  if (!/\bconcurrently\b/i.test(statement)) return null
  const built = /^create (?:unique )?index concurrently if not exists (\w+) [^;]*;?$/i.exec(statement)
  const dropped = /^drop index concurrently if exists (\w+);?$/i.exec(statement)
  const index = built?.[1] ?? dropped?.[1]
  if (index === undefined)
    throw new Error(
      `migration ${name} must hold one "create index concurrently if not exists" or "drop index concurrently if exists" alone`,
    )
  return index
}

const isLockTimeout = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === '55P03'
