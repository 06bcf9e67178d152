// The log file of a server that may run for weeks: appended to, and when it has grown large its text is moved to one older file. The
// server keeps its open file, so the file is emptied in place; that is why it is opened for appending.
import { closeSync, copyFileSync, fstatSync, mkdirSync, openSync, statSync, truncateSync } from 'node:fs'
import { dirname } from 'node:path'
import { readTail } from './log-tail.ts'

export type BoundedLog = {
  /** For the child's output; close it when the child has it. */
  readonly fd: number
  close(): void
  /** Where the output of this life begins. */
  start(): number
  /** The last lines of this life. */
  tail(lines: number): string
  /** Call it now and then. A few lines may be lost when it moves the text. */
  trim(): void
}

export function openBoundedLog(file: string, bytesMax: number): BoundedLog {
  mkdirSync(dirname(file), { recursive: true })
  moveIfLarge(file, bytesMax)
  const fd = openSync(file, 'a', 0o600)
  let start = fstatSync(fd).size
  return {
    fd,
    close: () => closeSync(fd),
    start: () => start,
    tail: (lines) => readTail(file, { lines, from: start }),
    trim: () => {
      try {
        if (moveIfLarge(file, bytesMax)) start = 0
      } catch {
        // A log that cannot be moved now is no reason to end the program that owns the server; the next round tries again.
      }
    },
  }
}

function moveIfLarge(file: string, bytesMax: number): boolean {
  const size = statSync(file, { throwIfNoEntry: false })?.size ?? 0
  if (size <= bytesMax) return false
  copyFileSync(file, `${file}.1`)
  truncateSync(file, 0)
  return true
}
