// Generates a secret file that was named and does not exist. Writes and syncs a temporary file and links it into place, so that a
// crash leaves no partial secret and only one of two concurrent programs creates it.
import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { link, lstat, open, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { FileRead } from './read-config-file.ts'

/** Leaves an existing file unchanged. */
export async function createSecretFile(path: string, generate: () => string): Promise<FileRead<'made' | 'found'>> {
  try {
    if (await exists(path)) return { ok: true, value: 'found' }
    const draft = `${path}.${randomUUID()}.new`
    await writeDraft(draft, generate())
    try {
      await link(draft, path)
    } finally {
      await rm(draft, { force: true })
    }
    await syncFolder(dirname(path))
    return { ok: true, value: 'made' }
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? 'unknown error'
    if (code === 'EEXIST') return { ok: true, value: 'found' }
    return {
      ok: false,
      problem: `does not exist and cannot be created (${code}): create its folder, writable for this user, or correct the path`,
    }
  }
}

const exists = (path: string): Promise<boolean> =>
  lstat(path).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return false
      throw error
    },
  )

async function writeDraft(path: string, text: string): Promise<void> {
  await using file = await open(path, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600)
  await file.writeFile(`${text}\n`)
  await file.sync()
}

/** Without the sync, a power failure could lose the name of a secret that is already in use. */
async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, constants.O_RDONLY)
  await folder.sync().catch(() => undefined)
}
