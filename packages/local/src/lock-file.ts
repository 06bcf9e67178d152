// A lock between processes of one machine, kept as numbered files in a folder: the highest number is the lock, its content says who
// holds it. Taking over from a dead holder adds the next number and never removes a lock that somebody may hold, so two processes that
// find the same dead holder cannot both win. Node has no flock, and a plain lock file that is unlinked and made anew has that race.
import { linkSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isSameProcess, type RecordedProcess, startTimeOf } from './process-table.ts'

export type LockHolder = RecordedProcess & { info: Record<string, string> }
export type Lock = {
  /** Replaces what others read about the holder. */
  update(info: Record<string, string>): void
  release(): void
}

/** Takes the lock, or says who has it. The folder stays after release: its highest number must never go back. */
export function tryLock(folder: string, info: Record<string, string> = {}): { lock: Lock } | { heldBy: LockHolder } {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  for (;;) {
    const top = highest(folder)
    const holder = readHolder(folder, top)
    if (holder !== undefined) return { heldBy: holder }
    const mine = top + 1
    // Somebody may have taken and left this number since we looked, and a later one may be in force: only the highest counts.
    if (!claim(folder, mine, info)) continue
    if (highest(folder) === mine) return { lock: held(folder, mine) }
    rmSync(join(folder, String(mine)), { force: true })
  }
}

/** Waits until the lock is ours; `onWait` is called once, when somebody else has it. */
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

/** Who holds the lock now, without taking it. */
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

/** Undefined when nobody holds it: no file, released, unreadable after a crash of the machine, or its process is gone. */
function readHolder(folder: string, number: number): LockHolder | undefined {
  try {
    const seen = JSON.parse(readFileSync(join(folder, String(number)), 'utf8')) as Partial<LockHolder>
    if (typeof seen.pid !== 'number' || typeof seen.startTime !== 'string') return undefined
    return isSameProcess(seen.pid, seen.startTime) ? { pid: seen.pid, startTime: seen.startTime, info: seen.info ?? {} } : undefined
  } catch {
    return undefined
  }
}

/** Written aside and linked, so that a lock never exists without its content; false when the number is taken. */
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

function held(folder: string, number: number): Lock {
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
  return writer === undefined ? Number(name) < number : startTimeOf(Number(writer)) === undefined
}

function release(folder: string, path: string): void {
  try {
    renameSync(writeDraft(folder, '{}'), path)
  } catch (error) {
    // The folder was removed while we held the lock, so nothing is left to give back.
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
  }
}

function content(info: Record<string, string>): string {
  return JSON.stringify({ pid: process.pid, startTime: startTimeOf(process.pid) ?? '', info })
}

function writeDraft(folder: string, text: string): string {
  const draft = join(folder, `draft-${process.pid}-${process.hrtime.bigint()}`)
  writeFileSync(draft, text, { mode: 0o600 })
  return draft
}
