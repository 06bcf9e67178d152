// The database of a local installation: a configured one, or an own PostgreSQL in .brokkr/pg, on a Unix socket, with fsync.
import { join } from 'node:path'
import { startPostgres } from '@brokkr/local/postgres/postgres.ts'
import pg from 'pg'
import { readCliEnvironment } from '../config.ts'
import type { StepResult } from './progress.ts'
import type { UpContext } from './up.ts'

const name = 'brokkr'

export async function startDatabase({ dir, flags, supervisor, signal }: UpContext): Promise<StepResult<string>> {
  const configuredUrl = flags.databaseUrl ?? readCliEnvironment(process.env).DATABASE_URL
  if (configuredUrl !== null) return { detail: 'configured by --database-url or DATABASE_URL', value: configuredUrl }
  const server = await startPostgres({ dir: join(dir, 'pg'), fsync: true, adopt: true, signal })
  supervisor.attach({
    name: 'postgres',
    pid: server.pid,
    startTime: server.startTime,
    log: server.logFile,
    stopSignal: 'SIGINT',
    stop: () => server.stop(),
  })
  await ensureDatabase(server.url('postgres'))
  return { detail: `PostgreSQL ${server.version} · socket and data in ${join(flags.dir, 'pg')}`, value: server.url(name) }
}

async function ensureDatabase(adminUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl })
  await client.connect()
  try {
    const { rowCount } = await client.query('select from pg_database where datname = $1', [name])
    if (rowCount === 0) await client.query(`create database ${name}`)
  } finally {
    await client.end()
  }
}
