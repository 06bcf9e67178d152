// The database of a local installation: the one given, else an own PostgreSQL in .brokkr/pg, on a Unix socket, fsync on.
import { join } from 'node:path'
import { startPostgres } from '@brokkr/local/postgres.ts'
import pg from 'pg'
import type { Done } from './progress.ts'
import type { UpContext } from './up.ts'

const name = 'brokkr'

export async function startDatabase({ dir, flags, supervisor, signal }: UpContext): Promise<Done<string>> {
  const given = flags.databaseUrl ?? process.env['DATABASE_URL']
  if (given !== undefined) return { detail: 'the one that was given', value: given }
  const server = await startPostgres({ dir: join(dir, 'pg'), fsync: true, adopt: true, signal })
  supervisor.attach({
    name: 'postgres',
    pid: server.pid,
    startTime: server.startTime,
    log: server.logFile,
    stopSignal: 'SIGINT',
    stop: () => server.stop(),
  })
  await createOnce(server.url('postgres'))
  return { detail: `PostgreSQL ${server.version} · socket and data in ${join(flags.dir, 'pg')}`, value: server.url(name) }
}

async function createOnce(adminUrl: string): Promise<void> {
  const client = new pg.Client({ connectionString: adminUrl })
  await client.connect()
  try {
    const { rowCount } = await client.query('select from pg_database where datname = $1', [name])
    if (rowCount === 0) await client.query(`create database ${name}`)
  } finally {
    await client.end()
  }
}
