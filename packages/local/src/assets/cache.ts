// Cache of downloads and builds, outside the repository. An entry is filled in a temporary folder and renamed under a lock, so
// concurrent processes fill it once and a killed process leaves no incomplete entry.
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, rename, rm } from 'node:fs/promises'
import { homedir } from 'node:os'
import { basename, dirname, join, resolve } from 'node:path'
import { type LockHolder, waitForLock } from '../supervisor/lock-file.ts'

export type FillOptions = {
  /** Called once, when another process is filling the entry. */
  onWait?: (holder: LockHolder) => void
  signal?: AbortSignal
}

export function cacheDir(env: NodeJS.ProcessEnv = process.env): string {
  const configuredDir = env['BROKKR_CACHE']
  return configuredDir === undefined || configuredDir === '' ? join(homedir(), '.cache', 'brokkr') : resolve(configuredDir)
}

/** Returns the path of the entry `key` (segments of letters, digits, `.`, `_`, `-`, `+`); calls `fill` if it does not exist. */
export async function ensureEntry(
  cache: string,
  key: string,
  fill: (tmpDir: string, signal: AbortSignal) => Promise<void>,
  options: FillOptions = {},
): Promise<string> {
  const entry = entryPath(cache, key)
  const signal = options.signal ?? new AbortController().signal
  if (existsSync(entry)) return entry
  await mkdir(dirname(entry), { recursive: true })
  const lock = await waitForLock(`${entry}.lock`, options)
  try {
    if (!existsSync(entry)) await fillUnderLock(entry, fill, signal)
    return entry
  } finally {
    lock.release()
  }
}

/** Path of an entry, which need not exist. Rejects keys that would be outside the cache. */
export function entryPath(cache: string, key: string): string {
  if (!/^[A-Za-z0-9][A-Za-z0-9._+-]*(\/[A-Za-z0-9][A-Za-z0-9._+-]*)*$/.test(key))
    throw new Error(`'${key}' is not a valid name of a cache entry`)
  return join(cache, key)
}

async function fillUnderLock(entry: string, fill: (tmpDir: string, signal: AbortSignal) => Promise<void>, signal: AbortSignal) {
  await sweepLeftovers(entry)
  const tmpDir = await mkdtemp(`${entry}.tmp-`)
  try {
    await fill(tmpDir, signal)
    signal.throwIfAborted()
    await rename(tmpDir, entry)
  } catch (error) {
    await rm(tmpDir, { recursive: true, force: true })
    throw error
  }
}

/** Only the holder of the lock fills the entry, so every other temporary folder belongs to a process that has ended. */
async function sweepLeftovers(entry: string): Promise<void> {
  const prefix = `${basename(entry)}.tmp-`
  const names = await readdir(dirname(entry))
  for (const name of names) if (name.startsWith(prefix)) await rm(join(dirname(entry), name), { recursive: true, force: true })
}
