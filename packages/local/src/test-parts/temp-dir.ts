// A folder for one test, on memory where the machine has it: databases are made several times faster there.
import { accessSync, chmodSync, constants, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** Open for passing through, so that a server that root drops to an ordinary user reaches what lies in it. */
export function tempDir(): string {
  const folder = makeTempDir()
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** The same for what outlives one test: the caller removes it. */
export function makeTempDir(): string {
  const folder = realpathSync(mkdtempSync(join(fastFolder(), 'brokkr-local-')))
  chmodSync(folder, 0o711)
  return folder
}

function fastFolder(): string {
  try {
    accessSync('/dev/shm', constants.W_OK | constants.X_OK)
    return '/dev/shm'
  } catch {
    return tmpdir()
  }
}
