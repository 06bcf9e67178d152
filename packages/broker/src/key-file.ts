// The file that holds the first admin key: written for its owner alone, never through a link, and gone as soon as it has
// served: at the first call of an admin, when its time is over, or when the broker stops.
import { constants } from 'node:fs'
import { lstat, mkdir, open, readFile, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { hashPak } from '@brokkr/contract/pak.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'

/** Directory 0700, file 0600, never over something that is there but an earlier key of ours. */
export async function writeKeyFile(path: string, pak: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o700 })
  const { mode } = await stat(dirname(path))
  if ((mode & 0o077) !== 0)
    throw new Error(
      `${dirname(path)} is open to others: the first admin key is not written there; make it 0700 or set broker.admin_pak_file`,
    )
  await removeEarlierFile(path)
  await using file = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600)
  await file.writeFile(`${pak}\n`)
  await file.sync()
}

/** A key of an earlier database goes; anything but a plain file of our own was planted, and stops the start. */
async function removeEarlierFile(path: string): Promise<void> {
  const found = await lstat(path).catch(() => null)
  if (found === null) return
  if (!found.isFile() || found.uid !== process.getuid?.())
    throw new Error(`${path} is not a plain file of this user: somebody else put it there; remove it or set broker.admin_pak_file`)
  await rm(path)
}

export interface KeyFileGuard {
  /** An admin has called: whoever needed the file has read it. */
  used(): void
  /** The broker stops. */
  close(): Promise<void>
}
export interface KeyFileDeps {
  readonly clock: Clock
  readonly log: Log
  readonly isLiveKey: (hash: string) => Promise<boolean>
  /** Whether an admin has called, this process or another one. */
  readonly wasUsed: () => Promise<boolean>
}

/** The first call may reach another process than the one that wrote the file. */
const lookEveryMs = 5_000

/** Also takes over the file of a broker that was killed; a file that holds no live key of this database is not ours to touch. */
export async function guardKeyFile(deps: KeyFileDeps, options: { path: string; lifeMs: number }): Promise<KeyFileGuard> {
  const ageMs = await ageOfOurs(deps, options.path)
  if (ageMs === null) return { used: () => undefined, close: async () => undefined }
  let removed: Promise<void> | null = null
  const remove = (why: string): Promise<void> => {
    timer.cancel()
    look.cancel()
    return (removed ??= removeFile(deps.log, options.path, why))
  }
  const timer = deps.clock.setTimer(Math.max(0, options.lifeMs - ageMs), () => void remove('its time is over'))
  const lookAgain = async () => {
    if (await deps.wasUsed().catch(() => false)) return remove('an admin has called')
    if (removed === null) look = deps.clock.setTimer(lookEveryMs, () => void lookAgain())
  }
  let look = deps.clock.setTimer(lookEveryMs, () => void lookAgain())
  return { used: () => void remove('an admin has called'), close: () => remove('the broker stops') }
}

async function ageOfOurs({ clock, isLiveKey }: KeyFileDeps, path: string): Promise<number | null> {
  const found = await lstat(path).catch(() => null)
  if (found === null || !found.isFile() || found.uid !== process.getuid?.()) return null
  const hash = await hashPak((await readFile(path, 'utf8')).trim())
  return hash !== null && (await isLiveKey(hash)) ? clock.now() - found.mtimeMs : null
}

async function removeFile(log: Log, path: string, why: string): Promise<void> {
  try {
    await rm(path, { force: true })
    log.info('file of the first admin key removed', { file: path, why })
  } catch (error) {
    log.warn('file of the first admin key could not be removed: remove it by hand', { file: path, error: error as Error })
  }
}
