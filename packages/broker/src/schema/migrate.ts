// Runs the numbered migrations under one advisory lock and records their checksums. A changed migration, a schema newer than this build or a
// schema from before the first release stops the start.
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { buildConnectionConfig, schemaPattern } from '@brokkr/postgres'
import pg from 'pg'
import { migrationsDir } from '../assets.ts'
import { applyMigration, type Migration } from './apply-migration.ts'

export interface MigrationOutcome {
  readonly version: number
  readonly applied: number
}
export async function migrate(url: string, options: { schema?: string; dir?: string } = {}): Promise<MigrationOutcome> {
  const schema = options.schema ?? 'public'
  const client = new pg.Client({
    ...buildConnectionConfig({ url, schema, applicationName: 'brokkr-migrate' }),
    connectionTimeoutMillis: 10_000,
  })
  // The next statement reports a lost connection; without a listener the error event would end the process.
  client.on('error', () => undefined)
  await client.connect()
  try {
    // Several processes may start at once. A session lock is released by a crash; waiting can take as long as a migration.
    await client.query('set statement_timeout = 0')
    await client.query('set lock_timeout = 0')
    await refuseStandby(client)
    await lockMigrations(client, schema)
    return await applyMissing(client, schema, await readMigrations(options.dir))
  } finally {
    await client.end()
  }
}

/** Polls, because a concurrent index build would wait for a statement that waits for the lock. */
async function lockMigrations(client: pg.Client, schema: string): Promise<void> {
  const text = 'select pg_try_advisory_lock(hashtextextended($1, 0)) as is_ours'
  for (;;) {
    const { rows } = await client.query<{ is_ours: boolean }>(text, [`brokkr:migrate:${schema}`])
    if (rows[0]?.is_ours === true) return
    await sleep(100)
  }
}

/** A standby accepts no writes, and cursors need transaction ids of the primary. */
async function refuseStandby(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ standby: boolean }>('select pg_is_in_recovery() as standby')
  if (rows[0]?.standby === true) throw new Error('the database is a hot standby and accepts no writes: point database.url at the primary')
}

export async function readMigrations(dir: string = migrationsDir()): Promise<Migration[]> {
  const names = (await readdir(dir)).filter((name) => /^\d{4}_[a-z0-9_]+\.sql$/.test(name)).toSorted()
  return Promise.all(
    names.map(async (name) => {
      const text = await readFile(join(dir, name), 'utf8')
      return { version: Number(name.slice(0, 4)), name, text, checksum: createHash('sha256').update(text).digest('hex') }
    }),
  )
}

async function applyMissing(client: pg.Client, schema: string, migrations: Migration[]): Promise<MigrationOutcome> {
  if (!schemaPattern.test(schema)) throw new Error(`schema name ${JSON.stringify(schema)} must match ${schemaPattern}`)
  // Checked first: a role that owns one schema of a shared database may lack the right to create schemas.
  const { rowCount } = await client.query('select from pg_namespace where nspname = $1', [schema])
  if (rowCount === 0) await client.query(`create schema if not exists ${pg.escapeIdentifier(schema)}`)
  await client.query(
    'create table if not exists schema_migrations (version int primary key, checksum text not null, applied_at timestamptz not null default now())',
  )
  const { rows } = await client.query<{ version: number; checksum: string }>(
    'select version, checksum from schema_migrations order by version',
  )
  refusePreRelease(rows, schema)
  refuseForeignHistory(rows, migrations)
  const missing = migrations.filter(({ version }) => !rows.some((row) => row.version === version))
  for (const migration of missing) await applyMigration(client, migration)
  return { version: migrations.at(-1)?.version ?? 0, applied: missing.length }
}

/** Checksum of the first migration in builds before release 0.1.0. */
const preReleaseChecksum = '685cf8dde391ae4f81496783d7d650b9e01ba1400b0b7c25e5833e627578e7dc'

function refusePreRelease(done: { version: number; checksum: string }[], schema: string): void {
  if (!done.some(({ checksum }) => checksum === preReleaseChecksum)) return
  const recreate = `drop schema ${pg.escapeIdentifier(schema)} cascade; create schema ${pg.escapeIdentifier(schema)}`
  throw new Error(
    `the database was made by a build before the first release, and there is no upgrade from it. Recreate it, which deletes all that it holds, and start again. After brokkr up: brokkr down --purge. Elsewhere: psql "$DATABASE_URL" -c '${recreate}'`,
  )
}

function refuseForeignHistory(done: { version: number; checksum: string }[], migrations: Migration[]): void {
  for (const row of done) {
    const ours = migrations.find(({ version }) => version === row.version)
    if (ours === undefined)
      throw new Error(`the database has migration ${row.version}, which this build does not know: start a newer release`)
    if (ours.checksum !== row.checksum)
      throw new Error(`migration ${ours.name} differs from the one this database was made with: restore the file`)
  }
}
