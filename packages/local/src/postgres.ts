// A real PostgreSQL server in a folder, for `brokkr up` and for tests: made on first use, its data kept between runs, reached over a
// Unix socket alone unless TCP is asked for, gone when we are gone.
import { realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '@brokkr/runtime/log.ts'
import pg from 'pg'
import { cacheDir } from './cache.ts'
import { waitForLock } from './lock-file.ts'
import { readTail } from './log-tail.ts'
import { postgresArguments } from './postgres-arguments.ts'
import { findPostgres, type PostgresBinaries } from './postgres-binaries.ts'
import { makeSocketDir, type PostgresFolders, preparePostgresFolders } from './postgres-folders.ts'
import { ensurePostgresData } from './postgres-init.ts'
import { type Postmaster, runPostmaster } from './postmaster.ts'
import { findServer } from './postmaster-record.ts'

export type PostgresOptions = {
  /** Data, socket, password and log live here (or in a folder derived from it, where the server cannot reach this one). */
  dir: string
  /** Off in tests only: a crash of the machine would lose data. */
  fsync: boolean
  logicalReplication?: boolean
  tcp?: { port: number }
  settings?: Record<string, string>
  /** Use a server that already runs on these data instead of failing; true unless told. */
  adopt?: boolean
  /** Only the npm package, never a system PostgreSQL. */
  npmOnly?: boolean
  cacheDir?: string
  log?: Log
  signal?: AbortSignal
}

export type PostgresServer = {
  readonly pid: number
  readonly startTime: string
  readonly version: string
  readonly socketDir: string
  readonly port: number
  readonly user: 'postgres'
  readonly password: string
  readonly dataDir: string
  readonly logFile: string
  /** For node-postgres, over the Unix socket. */
  url(database?: string): string
  logTail(lines?: number): string
  isRunning(): boolean
  /** Returns when the server has ended, for the signals that end it. */
  kill(signal: NodeJS.Signals): Promise<void>
  /** Stops it if it runs and starts it on the same data, socket and port. */
  restart(): Promise<void>
  stop(): Promise<void>
}

export async function startPostgres(options: PostgresOptions): Promise<PostgresServer> {
  const port = options.tcp?.port ?? 5432
  const folders = preparePostgresFolders(options.dir, port)
  if (folders.home !== realpathSync(options.dir))
    options.log?.warn('postgres cannot reach its folder, its data lie elsewhere', { dir: options.dir, home: folders.home })
  const found = { cache: options.cacheDir ?? cacheDir(), user: folders.user, npmOnly: options.npmOnly ?? false }
  const binaries = await findPostgres(found)
  const lock = await waitForLock(join(folders.home, 'start.lock'), options.signal === undefined ? {} : { signal: options.signal })
  try {
    makeSocketDir(folders)
    const password = await ensurePostgresData(binaries, folders, options.fsync)
    return await serve({ options, folders, binaries, port, password })
  } catch (error) {
    if (findServer(folders) === undefined) rmSync(folders.socketDir, { recursive: true, force: true })
    throw error
  } finally {
    lock.release()
  }
}

type Parts = { options: PostgresOptions; folders: PostgresFolders; binaries: PostgresBinaries; port: number; password: string }

async function serve(parts: Parts): Promise<PostgresServer> {
  const { folders, port, password } = parts
  let postmaster = await run(parts)
  return {
    get pid() {
      return postmaster.pid
    },
    get startTime() {
      return postmaster.startTime
    },
    version: parts.binaries.version,
    socketDir: folders.socketDir,
    port,
    user: 'postgres' as const,
    password,
    dataDir: folders.dataDir,
    logFile: folders.logFile,
    url: (database = 'postgres') => urlOf(parts, database),
    logTail: (lines = 20) => readTail(folders.logFile, { lines }),
    isRunning: () => postmaster.isRunning(),
    kill: (signal: NodeJS.Signals) => kill(postmaster, signal),
    restart: async () => {
      await postmaster.stop()
      postmaster = await run(parts)
    },
    stop: async () => {
      await postmaster.stop()
      rmSync(folders.socketDir, { recursive: true, force: true })
    },
  }
}

function run(parts: Parts): Promise<Postmaster> {
  const { options, folders, binaries, port } = parts
  makeSocketDir(folders)
  return runPostmaster({
    commandLine: [binaries.postgres, ...postgresArguments(options, { ...folders, port })],
    folders,
    adopt: options.adopt ?? true,
    ask: () => ask(urlOf(parts, 'postgres')),
    log: options.log,
    signal: options.signal,
  })
}

async function ask(connectionString: string): Promise<void> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 10_000, query_timeout: 10_000 })
  // A server that goes away between two steps is told by the steps; without a listener it would end the program.
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query('select 1')
  } finally {
    await client.end().catch(() => {})
  }
}

function urlOf(parts: Parts, database: string): string {
  const where = `host=${encodeURIComponent(parts.folders.socketDir)}&port=${parts.port}`
  return `postgresql://postgres:${encodeURIComponent(parts.password)}@/${encodeURIComponent(database)}?${where}`
}

/** TERM lets the server wait for its clients as long as they like, so only the signals that end it soon are waited for. */
async function kill(postmaster: Postmaster, signal: NodeJS.Signals): Promise<void> {
  postmaster.kill(signal)
  if (!['SIGKILL', 'SIGQUIT', 'SIGINT', 'SIGABRT'].includes(signal)) return
  if (!(await postmaster.ended(60_000))) throw new Error(`PostgreSQL (pid ${postmaster.pid}) did not end 60 s after ${signal}`)
}
