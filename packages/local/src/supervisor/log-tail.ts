// Reads the last lines of a log file, for error messages. The number of bytes read is bounded.
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'

const tailBytesMax = 64 * 1024

/** Empty if the file cannot be read. `from` skips the output of earlier processes. */
export function readTail(file: string, options: { lines?: number; from?: number } = {}): string {
  const text = readEnd(file, options.from ?? 0)
  return text
    .split('\n')
    .slice(-(options.lines ?? 20))
    .join('\n')
}

function readEnd(file: string, from: number): string {
  let fd: number
  try {
    fd = openSync(file, 'r')
  } catch {
    return ''
  }
  try {
    const end = fstatSync(fd).size
    const start = Math.max(Math.min(from, end), end - tailBytesMax)
    const buffer = Buffer.alloc(end - start)
    return buffer.toString('utf8', 0, readSync(fd, buffer, 0, buffer.length, start)).trimEnd()
  } finally {
    closeSync(fd)
  }
}
