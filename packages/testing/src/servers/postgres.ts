// Real databases for tests: one server per run, a fresh database per call. Where a test must kill the server, one of its own.
import { type PostgresOptions, type PostgresServer, startPostgres } from '@brokkr/local/postgres/postgres.ts'
import pg from 'pg'
import { callServers } from './owner/client.ts'

export type TestDatabase = {
  /** For node-postgres. */
  readonly url: string
  readonly name: string
  /** A connected client; the caller ends it. */
  readonly connect: () => Promise<pg.Client>
  /** Sessions on it are ended. Not needed: it goes with the run, or when this worker has gone on to another test file. */
  readonly drop: () => Promise<void>
}

/** With the broker's schema. */
export async function database(): Promise<TestDatabase> {
  return handle(await callServers('postgres.create', { from: 'template' }))
}

export async function emptyDatabase(): Promise<TestDatabase> {
  return handle(await callServers('postgres.create', { from: 'nothing' }))
}

export type PrivatePostgres = PostgresServer & {
  /** A fresh empty database on this server. */
  readonly database: () => Promise<Omit<TestDatabase, 'drop'>>
}
export type PrivatePostgresOptions = Partial<Pick<PostgresOptions, 'fsync' | 'logicalReplication' | 'settings' | 'tcp' | 'log'>>

/** A server of its own, to be killed and restarted. It ends with this process, the test file or the run, whichever is first. */
export async function privatePostgres(options: PrivatePostgresOptions = {}): Promise<PrivatePostgres> {
  // Who wants fsync wants a disk behind it: in memory it would cost nothing, and no figure of a writer would mean anything.
  const dir = await callServers('loan.folder', { kind: options.fsync ? 'plain' : 'fast' })
  const server = await startPostgres({ fsync: false, logicalReplication: true, ...options, dir, npmOnly: true, adopt: false })
  const noted = () => callServers('loan.note', { folder: dir, processes: [{ pid: server.pid, startTime: server.startTime }] })
  await noted()
  let count = 0
  // Not a copy: the pid is a getter that changes with each restart.
  return Object.assign(Object.create(server) as PostgresServer, {
    restart: async () => {
      await server.restart()
      await noted()
    },
    database: async () => {
      const name = `own_${(count += 1)}`
      await createOn(server.url(), name)
      return { name, url: server.url(name), connect: () => connected(server.url(name)) }
    },
  })
}

function handle({ name, url }: { name: string; url: string }): TestDatabase {
  return {
    name,
    url,
    connect: () => connected(url),
    drop: async () => {
      await callServers('postgres.drop', { name })
    },
  }
}

async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 30_000 })
  // The next query reports a stopped server; without a listener the error would end the whole test run.
  client.on('error', () => {})
  await client.connect()
  return client
}

async function createOn(url: string, name: string): Promise<void> {
  const client = await connected(url)
  try {
    await client.query(`create database ${pg.escapeIdentifier(name)} strategy file_copy`)
  } finally {
    await client.end()
  }
}
