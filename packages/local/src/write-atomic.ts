// Replaces a small file in one step: readers see the old text or the new one, and a kill in between leaves the old one. Synchronous, so
// that two writers of one process cannot overtake each other.
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
