// Replaces a small file atomically: readers see the old or the new text, and a kill leaves the old one. Synchronous, so that writers of
// one process keep their order.
import { renameSync, rmSync, writeFileSync } from 'node:fs'

export function writeAtomic(path: string, text: string, mode = 0o600): void {
  const draft = `${path}.${process.pid}-${process.hrtime.bigint()}`
  try {
    writeFileSync(draft, text, { mode, flush: true })
    renameSync(draft, path)
  } catch (error) {
    rmSync(draft, { force: true })
    throw error
  }
}
