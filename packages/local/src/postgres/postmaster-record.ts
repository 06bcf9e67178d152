// Records of a running server on a data folder: PostgreSQL's postmaster.pid and our server.json. The latter adds the start time,
// which detects a reused pid, and the command line, to compare settings.
import { existsSync, readdirSync, readFileSync, readlinkSync, realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type RecordedProcess, readStartTime } from '../supervisor/process-table.ts'
import { writeAtomic } from '../supervisor/write-atomic.ts'
import type { PostgresFolders } from './folders.ts'

type ServerPaths = Pick<PostgresFolders, 'dataDir' | 'socketDir' | 'recordFile'>
/** `commandLine` is missing if the starting process was killed before it wrote the record. */
export type RecordedServer = RecordedProcess & { commandLine?: string[] }

export function recordServer(places: ServerPaths, server: Required<RecordedServer>): void {
  const { pid, startTime, commandLine } = server
  writeAtomic(places.recordFile, `${JSON.stringify({ pid, startTime, commandLine })}\n`)
}

/** Returns the running server of this data. Removes lock files of other processes. */
export function findServer(places: ServerPaths): RecordedServer | undefined {
  const pidFile = join(places.dataDir, 'postmaster.pid')
  const server = existsSync(pidFile) ? identifyServer(places, Number.parseInt(readFileSync(pidFile, 'utf8'), 10)) : undefined
  // PostgreSQL checks the pid alone: a zombie, or a later process of the same user, would keep it from starting. Children of a killed
  // server still hold its shared memory, which PostgreSQL checks too.
  if (server === undefined) for (const file of [pidFile, ...socketLocks(places.socketDir)]) rmSync(file, { force: true })
  return server
}

/** Only servers of this data use this folder. */
function socketLocks(socketDir: string): string[] {
  if (!existsSync(socketDir)) return []
  const names = readdirSync(socketDir).filter((name) => /^\.s\.PGSQL\.\d+\.lock$/.test(name))
  return names.map((name) => join(socketDir, name))
}

function identifyServer(places: ServerPaths, pid: number): RecordedServer | undefined {
  const startTime = readStartTime(pid)
  return startTime === undefined ? undefined : identify(places, { pid, startTime })
}

function identify(places: ServerPaths, living: RecordedProcess): RecordedServer | undefined {
  const record = readRecord(places.recordFile)
  if (record?.pid === living.pid && record.startTime === living.startTime) return record
  return hasWorkingDirectory(living.pid, places.dataDir) ? living : undefined
}

/** The working directory of a server is its data folder. Returns true if it cannot be read, so that no second server is started. */
function hasWorkingDirectory(pid: number, dataDir: string): boolean {
  if (process.platform !== 'linux') return true
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === realpathSync(dataDir)
  } catch {
    return false
  }
}

function readRecord(file: string): RecordedServer | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as RecordedServer
  } catch {
    return undefined
  }
}
