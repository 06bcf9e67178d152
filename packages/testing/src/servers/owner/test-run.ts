// Folders of one test run and the record of its processes. The record is in a shared folder, so that the next run can stop
// processes and remove folders of a killed owner. Processes are identified by pid and start time.
import { accessSync, chmodSync, constants, existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, statfsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isSameProcess, type RecordedProcess, readStartTime } from '@brokkr/local/supervisor/process-table.ts'
import { writeAtomic } from '@brokkr/local/supervisor/write-atomic.ts'
import { endProcesses } from './end-processes.ts'

type RunRecord = { owner: RecordedProcess; folders: string[]; processes: RecordedProcess[] }

export type TestRun = {
  readonly id: string
  /** For sockets, keys and logs. */
  readonly folder: string
  /** For databases: in memory where the machine has room there. */
  readonly fastFolder: string
  readonly processes: readonly RecordedProcess[]
  /** Records the current processes of this run; processes that have exited may be included. */
  note(processes: readonly RecordedProcess[]): void
  /** Ends the recorded processes and removes folders and record. */
  remove(): Promise<void>
}

/** The folder's name says the run, so that nothing else can be removed by a note. */
export function runFolder(id: string, parent: string = tmpdir()): string {
  if (!/^[0-9a-f]{12}$/.test(id)) throw new Error(`'${id}' is no id of a test run`)
  return join(parent, `brokkr-run-${id}`)
}

export function openTestRun(id: string): TestRun {
  const notePath = join(recordsFolder(), `${id}.json`)
  const folder = runFolder(id)
  const fastFolder = runFolder(id, fastParent())
  const folders = [...new Set([folder, fastFolder])]
  const processes: RecordedProcess[] = []
  const write = () => writeAtomic(notePath, JSON.stringify({ owner: identity(process.pid), folders, processes } satisfies RunRecord))
  write()
  for (const each of folders) {
    mkdirSync(each, { mode: 0o700 })
    // Under root, PostgreSQL runs as another user, which must be able to enter.
    chmodSync(each, 0o711)
  }
  return {
    id,
    folder,
    fastFolder,
    processes,
    note(added) {
      const living = [...processes, ...added].filter(({ pid, startTime }) => isSameProcess(pid, startTime))
      processes.splice(0, processes.length, ...new Map(living.map((each) => [each.pid, each])).values())
      write()
    },
    remove: () => clear(notePath, { folders, processes }),
  }
}

/** Ends processes and removes folders of killed owners; returns their run ids. */
export async function sweepDeadRuns(): Promise<string[]> {
  const swept: string[] = []
  for (const name of readdirSync(recordsFolder()).filter((each) => each.endsWith('.json'))) {
    const note = readRecord(join(recordsFolder(), name))
    if (!note || isSameProcess(note.owner.pid, note.owner.startTime)) continue
    const id = name.slice(0, -'.json'.length)
    const folders = note.folders.filter((folder) => folder.endsWith(`brokkr-run-${id}`))
    await clear(join(recordsFolder(), name), { folders, processes: note.processes })
    swept.push(id)
  }
  return swept
}

/** Removes the record last: as long as anything remains, the next run finds it. */
async function clear(notePath: string, left: Pick<RunRecord, 'folders' | 'processes'>): Promise<void> {
  await endProcesses(left.processes)
  for (const folder of left.folders) await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
  await rm(notePath, { force: true })
}

/** Undefined when another run has just removed it. */
function readRecord(path: string): RunRecord | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as RunRecord
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new Error(`the note of a test run, ${path}, cannot be read; remove it`, { cause: error })
  }
}

/** The folder is writable by all users, so its owner is checked. */
function recordsFolder(): string {
  const folder = join(tmpdir(), `brokkr-test-runs-${process.getuid?.() ?? 0}`)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const stats = lstatSync(folder)
  if (!stats.isDirectory() || stats.uid !== (process.getuid?.() ?? stats.uid))
    throw new Error(`${folder} belongs to another user; remove it, or set TMPDIR`)
  return folder
}

/** Containers often have 64 MB there, which a database outgrows. */
const freeBytesMin = 2 * 1024 ** 3

function fastParent(): string {
  const memory = '/dev/shm'
  try {
    accessSync(memory, constants.W_OK)
    const { bavail, bsize } = statfsSync(memory)
    return existsSync(memory) && bavail * bsize >= freeBytesMin ? memory : tmpdir()
  } catch {
    return tmpdir()
  }
}

export function identity(pid: number): RecordedProcess {
  return { pid, startTime: readStartTime(pid) ?? '' }
}
