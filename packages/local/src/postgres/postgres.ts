// A real PostgreSQL server in a folder, for `brokkr up` and for tests: created on first use, keeps its data between runs, listens on a
// Unix socket and optionally on TCP, ends with this process.
import { realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import pg from 'pg'
import { cacheDir } from '../assets/cache.ts'
import { waitForLock } from '../supervisor/lock-file.ts'
import { readTail } from '../supervisor/log-tail.ts'
import { postgresArguments } from './arguments.ts'
import { findPostgres, type PostgresBinaries } from './binaries.ts'
import { makeSocketDir, type PostgresFolders, preparePostgresFolders } from './folders.ts'
import { ensurePostgresData } from './init.ts'
import { type Postmaster, runPostmaster } from './postmaster.ts'
import { findServer } from './postmaster-record.ts'

export type PostgresOptions = {
  /** Folder of data, socket, password and log, or of a derived folder if the server user cannot reach this one. */
  dir: string
  /** Off only in tests: a crash of the machine would lose data. */
  fsync: boolean
  logicalReplication?: boolean
  tcp?: { port: number }
  settings?: Record<string, string>
  /** Uses a server that already runs on this data instead of failing; default true. */
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
    options.log?.warn('postgres data is in another folder, which its user can reach', { dir: options.dir, home: folders.home })
  const searchOptions = { cache: options.cacheDir ?? cacheDir(), user: folders.user, npmOnly: options.npmOnly ?? false }
  const binaries = await findPostgres(searchOptions)
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
    url: (database = 'postgres') => buildUrl(parts, database),
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
    ask: () => queryOnce(buildUrl(parts, 'postgres')),
    log: options.log,
    signal: options.signal,
  })
}

async function queryOnce(connectionString: string): Promise<void> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 10_000, query_timeout: 10_000 })
  // connect and query report a lost connection; without a listener the event would end the process.
  client.on('error', () => {})
  try {
    await client.connect()
    await client.query('select 1')
  } finally {
    await client.end().catch(() => {})
  }
}

function buildUrl(parts: Parts, database: string): string {
  const where = `host=${encodeURIComponent(parts.folders.socketDir)}&port=${parts.port}`
  return `postgresql://postgres:${encodeURIComponent(parts.password)}@/${encodeURIComponent(database)}?${where}`
}

/** Waits only for signals that end the server soon; after SIGTERM it waits for its clients. */
async function kill(postmaster: Postmaster, signal: NodeJS.Signals): Promise<void> {
  postmaster.kill(signal)
  if (!['SIGKILL', 'SIGQUIT', 'SIGINT', 'SIGABRT'].includes(signal)) return
  if (!(await postmaster.waitUntilExited(60_000))) throw new Error(`PostgreSQL (pid ${postmaster.pid}) did not end 60 s after ${signal}`)
}
