// The log file of a server that may run for weeks. Over the limit, its text is copied to one older file and the file is truncated. The
// server keeps its open descriptor, so the file is opened for appending.
import { closeSync, copyFileSync, fstatSync, mkdirSync, openSync, statSync, truncateSync } from 'node:fs'
import { dirname } from 'node:path'
import { readTail } from './log-tail.ts'

export type BoundedLog = {
  /** Passed to the child; close it afterwards. */
  readonly fd: number
  close(): void
  /** Offset at which the output of this process starts. */
  start(): number
  /** The last lines of this process. */
  tail(lines: number): string
  /** Call it periodically. It can lose lines that are written meanwhile. */
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
        // Ignored, so that the owner of the server keeps running; the next call retries.
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
