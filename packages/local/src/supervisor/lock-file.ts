// Lock between processes of one machine, stored as numbered files in a folder: the highest number is the lock, its content names
// the holder. Taking over from a dead holder adds the next number and never removes a file, so two processes that find the same
// dead holder cannot both win. Node has no flock, and unlinking and recreating one file has that race.
import { linkSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isSameProcess, type RecordedProcess, readStartTime } from './process-table.ts'

export type LockHolder = RecordedProcess & { info: Record<string, string> }
export type Lock = {
  /** Replaces the data about the holder. */
  update(info: Record<string, string>): void
  release(): void
}

/** Takes the lock, or returns its holder. The folder stays after release: its highest number must never decrease. */
export function tryLock(folder: string, info: Record<string, string> = {}): { lock: Lock } | { heldBy: LockHolder } {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  for (;;) {
    const top = highest(folder)
    const holder = readHolder(folder, top)
    if (holder !== undefined) return { heldBy: holder }
    const mine = top + 1
    // Another process may have taken and released this number since the check: only the highest number counts.
    if (!claim(folder, mine, info)) continue
    if (highest(folder) === mine) return { lock: toLock(folder, mine) }
    rmSync(join(folder, String(mine)), { force: true })
  }
}

/** Waits for the lock; `onWait` is called once, if another process holds it. */
export async function waitForLock(
  folder: string,
  options: { onWait?: (holder: LockHolder) => void; signal?: AbortSignal } = {},
): Promise<Lock> {
  for (let round = 0; ; round++) {
    options.signal?.throwIfAborted()
    const outcome = tryLock(folder)
    if ('lock' in outcome) return outcome.lock
    if (round === 0) options.onWait?.(outcome.heldBy)
    await sleep(Math.min(1000, 25 * (round + 1)), undefined, options.signal === undefined ? {} : { signal: options.signal })
  }
}

/** The current holder; does not take the lock. */
export function lockHolder(folder: string): LockHolder | undefined {
  return readHolder(folder, highest(folder))
}

function highest(folder: string): number {
  const names = readNames(folder).filter((name) => /^[1-9][0-9]{0,14}$/.test(name))
  return Math.max(0, ...names.map(Number))
}

function readNames(folder: string): string[] {
  try {
    return readdirSync(folder)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return []
    throw error
  }
}

/** Undefined without a holder: no file, released, unreadable after a crash, or its process has ended. */
function readHolder(folder: string, number: number): LockHolder | undefined {
  try {
    const holder = JSON.parse(readFileSync(join(folder, String(number)), 'utf8')) as Partial<LockHolder>
    if (typeof holder.pid !== 'number' || typeof holder.startTime !== 'string') return undefined
    return isSameProcess(holder.pid, holder.startTime)
      ? { pid: holder.pid, startTime: holder.startTime, info: holder.info ?? {} }
      : undefined
  } catch {
    return undefined
  }
}

/** Writes a draft and links it, so that a lock never exists without its content; false if the number is taken. */
function claim(folder: string, number: number, info: Record<string, string>): boolean {
  const draft = writeDraft(folder, content(info))
  try {
    linkSync(draft, join(folder, String(number)))
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  } finally {
    rmSync(draft, { force: true })
  }
}

function toLock(folder: string, number: number): Lock {
  const path = join(folder, String(number))
  for (const name of readNames(folder)) if (isLeftover(name, number)) rmSync(join(folder, name), { force: true })
  return {
    update: (info) => renameSync(writeDraft(folder, content(info)), path),
    release: () => release(folder, path),
  }
}

/** Earlier numbers, and drafts of processes that died while they wrote one. */
function isLeftover(name: string, number: number): boolean {
  const writer = /^draft-([0-9]+)-/.exec(name)?.[1]
  return writer === undefined ? Number(name) < number : readStartTime(Number(writer)) === undefined
}

function release(folder: string, path: string): void {
  try {
    renameSync(writeDraft(folder, '{}'), path)
  } catch (error) {
    // The folder was deleted while the lock was held, so there is nothing to release.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}

function content(info: Record<string, string>): string {
  return JSON.stringify({ pid: process.pid, startTime: readStartTime(process.pid) ?? '', info })
}

function writeDraft(folder: string, text: string): string {
  const draft = join(folder, `draft-${process.pid}-${process.hrtime.bigint()}`)
  writeFileSync(draft, text, { mode: 0o600 })
  return draft
}
