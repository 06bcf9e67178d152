// Runs the numbered migrations under one advisory lock, each in its own transaction, and remembers their checksums: a
// changed old migration or a schema newer than this build stops the start instead of guessing.
import { createHash } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import pg from 'pg'
import { migrationsDir } from '../assets.ts'
import { connectionConfig, schemaPattern } from './db.ts'

export interface MigrationOutcome {
  readonly version: number
  readonly applied: number
}
interface Migration {
  readonly version: number
  readonly name: string
  readonly text: string
  readonly checksum: string
}

export async function migrate(url: string, options: { schema?: string } = {}): Promise<MigrationOutcome> {
  const schema = options.schema ?? 'public'
  const client = new pg.Client({ ...connectionConfig({ url, schema, applicationName: 'brokkr-migrate' }), connectionTimeoutMillis: 10_000 })
  // A server that goes away is told by the next statement; without a listener it would end the process, which waits for its database.
  client.on('error', () => undefined)
  await client.connect()
  try {
    // Several processes may start at once; the lock is the session's, so a crash frees it. Waiting may take a migration's time.
    await client.query('set statement_timeout = 0')
    await client.query('set lock_timeout = 0')
    await refuseStandby(client)
    await client.query('select pg_advisory_lock(hashtextextended($1, 0))', [`brokkr:migrate:${schema}`])
    return await applyMissing(client, schema, await readMigrations())
  } finally {
    await client.end()
  }
}

/** Cursors are made from the primary's transactions; on a standby nothing could be written anyway. */
async function refuseStandby(client: pg.Client): Promise<void> {
  const { rows } = await client.query<{ standby: boolean }>('select pg_is_in_recovery() as standby')
  if (rows[0]?.standby === true) throw new Error('the database is a hot standby, which takes no writes: point database.url at the primary')
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
  // Asked first: a role that owns one schema of a shared database may not make schemas, not even one that is there.
  const { rowCount } = await client.query('select from pg_namespace where nspname = $1', [schema])
  if (rowCount === 0) await client.query(`create schema if not exists ${pg.escapeIdentifier(schema)}`)
  await client.query(
    'create table if not exists schema_migrations (version int primary key, checksum text not null, applied_at timestamptz not null default now())',
  )
  const { rows } = await client.query<{ version: number; checksum: string }>(
    'select version, checksum from schema_migrations order by version',
  )
  refuseForeignHistory(rows, migrations)
  const missing = migrations.filter(({ version }) => !rows.some((row) => row.version === version))
  for (const migration of missing) await applyOne(client, migration)
  return { version: migrations.at(-1)?.version ?? 0, applied: missing.length }
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

async function applyOne(client: pg.Client, migration: Migration): Promise<void> {
  try {
    await client.query('begin')
    await client.query(migration.text)
    await client.query('insert into schema_migrations (version, checksum) values ($1, $2)', [migration.version, migration.checksum])
    await client.query('commit')
  } catch (cause) {
    await client.query('rollback').catch(() => undefined)
    throw new Error(`migration ${migration.name} failed: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
  }
}
