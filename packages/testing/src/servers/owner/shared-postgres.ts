// The one PostgreSQL server of a run, in its owner: started on first request, a template filled once, and a database per request
// cloned from it by copying files, which takes some 20 ms on a memory file system.
import { randomBytes } from 'node:crypto'
import { type PostgresServer, startPostgres } from '@brokkr/local/postgres/postgres.ts'
import type { RecordedProcess } from '@brokkr/local/supervisor/process-table.ts'
import pg from 'pg'
import { fillTemplate } from './database-template.ts'
import { once } from './once.ts'
import type { Borrower } from './protocol.ts'

export type SharedPostgres = {
  create(from: 'template' | 'nothing', by: Borrower): Promise<{ name: string; url: string }>
  drop(name: string): Promise<void>
  /** Drops databases of earlier test files of a worker, unless they still have connections. */
  dropEarlier(by: Borrower): Promise<void>
  stop(): Promise<void>
}
export type SharedPostgresOptions = {
  dir: string
  signal: AbortSignal
  onStarted: (started: RecordedProcess) => void
  /** Fills the template; the broker's migrations unless told. */
  fill?: (url: string) => Promise<void>
}

const templateName = 'brokkr_template'

export function sharedPostgres(options: SharedPostgresOptions): SharedPostgres {
  const lent = new Map<string, Borrower>()
  const running = once(async () => {
    const server = await startPostgres({
      dir: options.dir,
      fsync: false,
      logicalReplication: true,
      npmOnly: true,
      adopt: false,
      signal: options.signal,
      settings: { max_connections: '500' },
    })
    options.onStarted({ pid: server.pid, startTime: server.startTime })
    const admin = new pg.Pool({ connectionString: server.url(), max: 3 })
    // The next query reports a stopped server.
    admin.on('error', () => {})
    return { server, admin }
  })
  const template = once(async () => makeTemplate(await running(), options.fill ?? fillTemplate))

  return {
    async create(from, by) {
      if (from === 'template') await template()
      const { server, admin } = await running()
      const name = `test_${lent.size}_${randomBytes(4).toString('hex')}`
      await describeServer(server, () => cloneDatabase(admin, name, from === 'template' ? templateName : 'template1'))
      lent.set(name, by)
      return { name, url: server.url(name) }
    },
    async drop(name) {
      const { server, admin } = await running()
      if (!lent.delete(name)) return
      await describeServer(server, () => admin.query(`drop database if exists ${pg.escapeIdentifier(name)} with (force)`))
    },
    async dropEarlier(by) {
      if (lent.size === 0) return
      const { admin } = await running()
      const earlier = [...lent].filter(([, borrower]) => borrower.pid === by.pid && borrower.file < by.file).map(([name]) => name)
      // Without force: a connected client would fail in another test. Checks for connections first, because a drop waits five
      // seconds for them.
      const { rows } = await admin.query<{ datname: string }>('select distinct datname from pg_stat_activity where datname = any($1)', [
        earlier,
      ])
      const busy = new Set(rows.map(({ datname }) => datname))
      for (const name of earlier) {
        if (busy.has(name)) continue
        const gone = await admin.query(`drop database if exists ${pg.escapeIdentifier(name)}`).catch(() => undefined)
        if (gone) lent.delete(name)
      }
    },
    async stop() {
      const started = running.begun() ? await running().catch(() => undefined) : undefined
      await started?.admin.end().catch(() => undefined)
      await started?.server.stop()
    },
  }
}

async function makeTemplate(
  { server, admin }: { server: PostgresServer; admin: pg.Pool },
  fill: (url: string) => Promise<void>,
): Promise<void> {
  await cloneDatabase(admin, templateName, 'template1')
  await describeServer(server, () => fill(server.url(templateName)))
  await admin.query(`alter database ${templateName} with is_template true allow_connections false`)
}

async function cloneDatabase(admin: pg.Pool, name: string, template: string): Promise<void> {
  await admin.query(`create database ${pg.escapeIdentifier(name)} template ${pg.escapeIdentifier(template)} strategy file_copy`)
}

/** The error for a server that has exited contains the end of its log. */
async function describeServer<T>(server: PostgresServer, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    const message = cause instanceof Error ? cause.message : String(cause)
    if (server.isRunning()) throw cause
    throw new Error(
      `the shared PostgreSQL of this run (pid ${server.pid}) is gone: ${message}\nthe end of its log:\n${server.logTail(40)}`,
      { cause },
    )
  }
}
