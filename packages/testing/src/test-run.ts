// The folders of one test run and the note of what it started. The note lies in a folder of its own, so that the next run of anybody
// can stop and remove what a killed owner left; processes are known by pid and start time, never by name.
import { accessSync, chmodSync, constants, existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, statfsSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isSameProcess, type RecordedProcess, startTimeOf } from '@brokkr/local/process-table.ts'
import { writeAtomic } from '@brokkr/local/write-atomic.ts'
import { endProcesses } from './end-processes.ts'

type Note = { owner: RecordedProcess; folders: string[]; processes: RecordedProcess[] }

export type TestRun = {
  readonly id: string
  /** For sockets, keys and logs. */
  readonly folder: string
  /** For databases: in memory where the machine has room there. */
  readonly fastFolder: string
  readonly processes: readonly RecordedProcess[]
  /** Writes down what runs now for this run; a process that is gone may be named. */
  note(processes: readonly RecordedProcess[]): void
  /** Ends what was noted and removes folders and note. */
  remove(): Promise<void>
}

/** The folder's name says the run, so that nothing else can be removed by a note. */
export function runFolder(id: string, parent: string = tmpdir()): string {
  if (!/^[0-9a-f]{12}$/.test(id)) throw new Error(`'${id}' is no id of a test run`)
  return join(parent, `brokkr-run-${id}`)
}

export function openTestRun(id: string): TestRun {
  const notePath = join(notesFolder(), `${id}.json`)
  const folder = runFolder(id)
  const fastFolder = runFolder(id, fastParent())
  const folders = [...new Set([folder, fastFolder])]
  const processes: RecordedProcess[] = []
  const write = () => writeAtomic(notePath, JSON.stringify({ owner: identity(process.pid), folders, processes } satisfies Note))
  write()
  for (const each of folders) {
    mkdirSync(each, { mode: 0o700 })
    // Under root PostgreSQL runs as somebody else, who must be able to pass through.
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

/** Ends and removes what owners left that were killed themselves; says whose. */
export async function sweepDeadRuns(): Promise<string[]> {
  const swept: string[] = []
  for (const name of readdirSync(notesFolder()).filter((each) => each.endsWith('.json'))) {
    const note = readNote(join(notesFolder(), name))
    if (!note || isSameProcess(note.owner.pid, note.owner.startTime)) continue
    const id = name.slice(0, -'.json'.length)
    const folders = note.folders.filter((folder) => folder.endsWith(`brokkr-run-${id}`))
    await clear(join(notesFolder(), name), { folders, processes: note.processes })
    swept.push(id)
  }
  return swept
}

/** The note goes last: as long as anything is left, somebody will find it. */
async function clear(notePath: string, left: Pick<Note, 'folders' | 'processes'>): Promise<void> {
  await endProcesses(left.processes)
  for (const folder of left.folders) await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
  await rm(notePath, { force: true })
}

/** Undefined when another run has just removed it. */
function readNote(path: string): Note | undefined {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as Note
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw new Error(`the note of a test run, ${path}, cannot be read; remove it`, { cause: error })
  }
}

/** In a folder that all can write to, so whoever made it is looked at. */
function notesFolder(): string {
  const folder = join(tmpdir(), `brokkr-test-runs-${process.getuid?.() ?? 0}`)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const seen = lstatSync(folder)
  if (!seen.isDirectory() || seen.uid !== (process.getuid?.() ?? seen.uid))
    throw new Error(`${folder} belongs to somebody else; remove it, or set TMPDIR`)
  return folder
}

/** Containers often have 64 MB there, which a database outgrows. */
const roomBytesMin = 2 * 1024 ** 3

function fastParent(): string {
  const memory = '/dev/shm'
  try {
    accessSync(memory, constants.W_OK)
    const { bavail, bsize } = statfsSync(memory)
    return existsSync(memory) && bavail * bsize >= roomBytesMin ? memory : tmpdir()
  } catch {
    return tmpdir()
  }
}

export function identity(pid: number): RecordedProcess {
  return { pid, startTime: startTimeOf(pid) ?? '' }
}
