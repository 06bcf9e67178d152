// What is known about the server on a data folder from before: PostgreSQL's own note (postmaster.pid) and ours (server.json), which adds
// the start time, so that a pid that was handed out again is not taken for the server, and the command line, so that settings compare.
import { existsSync, readFileSync, readlinkSync, realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { PostgresFolders } from './postgres-folders.ts'
import { type RecordedProcess, startTimeOf } from './process-table.ts'
import { writeAtomic } from './write-atomic.ts'

type Places = Pick<PostgresFolders, 'dataDir' | 'recordFile'>
/** `commandLine` is missing when its starter was killed before it could write it down. */
export type FoundServer = RecordedProcess & { commandLine?: string[] }

export function recordServer(places: Places, server: Required<FoundServer>): void {
  const { pid, startTime, commandLine } = server
  writeAtomic(places.recordFile, `${JSON.stringify({ pid, startTime, commandLine })}\n`)
}

/** The living server on these data. A note that names anything else is removed. */
export function findServer(places: Places): FoundServer | undefined {
  const pidFile = join(places.dataDir, 'postmaster.pid')
  if (!existsSync(pidFile)) return undefined
  const pid = Number.parseInt(readFileSync(pidFile, 'utf8'), 10)
  const startTime = startTimeOf(pid)
  const found = startTime === undefined ? undefined : identify(places, { pid, startTime })
  // PostgreSQL goes by the pid alone: a zombie, or a later process of the same user, would keep it from starting. Against children of
  // a killed server it has a second guard, their shared memory.
  if (found === undefined) rmSync(pidFile, { force: true })
  return found
}

function identify(places: Places, living: RecordedProcess): FoundServer | undefined {
  const record = readRecord(places.recordFile)
  if (record?.pid === living.pid && record.startTime === living.startTime) return record
  return worksIn(living.pid, places.dataDir) ? living : undefined
}

/** A server works in its data folder. Where that cannot be asked, the note is believed: better refuse to start than start twice. */
function worksIn(pid: number, dataDir: string): boolean {
  if (process.platform !== 'linux') return true
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === realpathSync(dataDir)
  } catch {
    return false
  }
}

function readRecord(file: string): FoundServer | undefined {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as FoundServer
  } catch {
    return undefined
  }
}
