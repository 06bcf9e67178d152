// A hot standby of a private PostgreSQL: a base backup of its files, then streaming replication over a link that can be cut, so that
// the last commits of the primary are lost when it is promoted.
import { chownSync, cpSync, lchownSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { preparePostgresFolders } from '@brokkr/local/postgres/folders.ts'
import { type PostgresServer, startPostgres } from '@brokkr/local/postgres/postgres.ts'
import pg from 'pg'
import { type FaultProxy, startFaultProxy } from '../faults/fault-proxy.ts'
import { waitFor } from '../wait-for.ts'
import { callServers } from './owner/client.ts'

export type Standby = {
  readonly server: PostgresServer
  /** Between the two servers. */
  readonly link: FaultProxy
  /** Everything the primary has committed so far is here. */
  caughtUp(): Promise<void>
  /** From now on it is a primary of its own, with a timeline of its own. */
  promote(): Promise<void>
  stop(): Promise<void>
}

/** Of any server that may be written to, a promoted standby included. */
export async function startStandby(primary: PostgresServer): Promise<Standby> {
  const dir = await callServers('loan.folder', { kind: 'fast' })
  const folders = preparePostgresFolders(dir, primary.port)
  const link = await startFaultProxy({ target: { path: join(primary.socketDir, `.s.PGSQL.${primary.port}`) } })
  await copyData(primary, folders.dataDir)
  writeFileSync(join(folders.dataDir, 'standby.signal'), '')
  writeFileSync(folders.passwordFile, `${primary.password}\n`, { mode: 0o600 })
  const conninfo = `host=127.0.0.1 port=${link.port} user=postgres password=${primary.password} application_name=standby`
  writeFileSync(join(folders.dataDir, 'postgresql.auto.conf'), `primary_conninfo = '${conninfo}'\n`)
  if (folders.user !== undefined) chownAll(folders.dataDir, folders.user)
  const server = await startPostgres({ fsync: false, logicalReplication: true, dir, npmOnly: true, adopt: false })
  await callServers('loan.note', { folder: dir, processes: [{ pid: server.pid, startTime: server.startTime }] })
  return {
    server,
    link,
    caughtUp: async () => {
      const [{ lsn }] = await ask<{ lsn: string }>(primary, 'select pg_current_wal_lsn()::text as lsn')
      await waitFor(
        'the standby to catch up',
        async () => (await ask<{ ok: boolean }>(server, 'select pg_last_wal_replay_lsn() >= $1::pg_lsn as ok', [lsn]))[0].ok,
        { onTimeout: () => server.logTail(20) },
      )
    },
    promote: async () => {
      await ask(server, 'select pg_promote(true, 60)')
    },
    stop: async () => {
      await server.stop()
      await link.close()
    },
  }
}

/** Files copied while the primary runs; the label tells recovery where to begin. */
async function copyData(primary: PostgresServer, dataDir: string): Promise<void> {
  const client = new pg.Client({ connectionString: primary.url() })
  await client.connect()
  try {
    await client.query(`select pg_backup_start('standby', true)`)
    cpSync(primary.dataDir, dataDir, { recursive: true, filter: (path) => !/\/postmaster\.(pid|opts)$/.test(path) })
    const { rows } = await client.query<{ labelfile: string }>('select labelfile from pg_backup_stop(false)')
    writeFileSync(join(dataDir, 'backup_label'), rows[0]!.labelfile)
  } finally {
    await client.end()
  }
  for (const name of readdirSync(join(dataDir, 'pg_replslot'))) rmSync(join(dataDir, 'pg_replslot', name), { recursive: true })
}

function chownAll(folder: string, user: { uid: number; gid: number }): void {
  chownSync(folder, user.uid, user.gid)
  for (const entry of readdirSync(folder, { withFileTypes: true, recursive: true }))
    lchownSync(join(entry.parentPath, entry.name), user.uid, user.gid)
}

async function ask<Row extends object>(
  server: Pick<PostgresServer, 'url'>,
  text: string,
  values: unknown[] = [],
): Promise<[Row, ...Row[]]> {
  const client = new pg.Client({ connectionString: server.url(), connectionTimeoutMillis: 30_000 })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query<Row>(text, values)).rows as [Row, ...Row[]]
  } finally {
    await client.end()
  }
}
