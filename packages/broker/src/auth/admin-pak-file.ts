// The file with the first admin PAK: readable only by its owner, never written through a link, and removed at the first call of an admin,
// when it expires, or when the broker stops.
import { constants } from 'node:fs'
import { lstat, mkdir, open, readFile, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { hashPak, type PakForm } from '@brokkr/contract/auth/pak.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'

/** Directory mode 0700, file mode 0600. Replaces only a file that an earlier broker wrote. */
export async function writeAdminPakFile(path: string, pak: string): Promise<void> {
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

/** Removes the file of an earlier database. Anything but a regular file of this user stops the start. */
async function removeEarlierFile(path: string): Promise<void> {
  const file = await lstat(path).catch(() => null)
  if (file === null) return
  if (!file.isFile() || file.uid !== process.getuid?.())
    throw new Error(`${path} is not a regular file of this user: remove it or set broker.admin_pak_file`)
  await rm(path)
}

export interface AdminPakFileGuard {
  /** An admin made a call, so the file is no longer needed. */
  used(): void
  /** The broker stops. */
  close(): Promise<void>
}
export interface AdminPakFileDeps {
  readonly clock: Clock
  readonly log: Log
  readonly isLiveKey: (hash: string) => Promise<boolean>
  /** Whether an admin made a call to any broker process. */
  readonly wasUsed: () => Promise<boolean>
}

export interface AdminPakFileOptions {
  readonly path: string
  readonly lifeMs: number
  readonly pakForm?: PakForm
}

/** The first call may reach another process, so the database is checked too. */
const checkEveryMs = 5_000

/** Also takes over the file of a killed broker. A file without a live PAK of this database is left alone. */
export async function guardAdminPakFile(deps: AdminPakFileDeps, options: AdminPakFileOptions): Promise<AdminPakFileGuard> {
  const ageMs = await readAge(deps, options)
  if (ageMs === null) return { used: () => undefined, close: async () => undefined }
  let removed: Promise<void> | null = null
  const remove = (why: string): Promise<void> => {
    timer.cancel()
    look.cancel()
    return (removed ??= removeFile(deps.log, options.path, why))
  }
  const timer = deps.clock.setTimer(Math.max(0, options.lifeMs - ageMs), () => void remove('expired'))
  const checkUse = async () => {
    if (await deps.wasUsed().catch(() => false)) return remove('an admin has called')
    if (removed === null) look = deps.clock.setTimer(checkEveryMs, () => void checkUse())
  }
  let look = deps.clock.setTimer(checkEveryMs, () => void checkUse())
  return { used: () => void remove('an admin has called'), close: () => remove('the broker stops') }
}

async function readAge({ clock, isLiveKey }: AdminPakFileDeps, { path, pakForm }: AdminPakFileOptions): Promise<number | null> {
  const file = await lstat(path).catch(() => null)
  if (file === null || !file.isFile() || file.uid !== process.getuid?.()) return null
  const hash = await hashPak((await readFile(path, 'utf8')).trim(), pakForm)
  return hash !== null && (await isLiveKey(hash)) ? clock.now() - file.mtimeMs : null
}

async function removeFile(log: Log, path: string, why: string): Promise<void> {
  try {
    await rm(path, { force: true })
    log.info('admin PAK file removed', { file: path, why })
  } catch (error) {
    log.warn('admin PAK file not removed, remove it manually', { file: path, error: error as Error })
  }
}
