// Makes the file of a secret that was named and is not there yet. Whole or not at all: the text is written beside it, brought
// to the disk and linked into place, so that a crash leaves no half key and of two programs that start at once one makes it.
import { randomUUID } from 'node:crypto'
import { constants } from 'node:fs'
import { link, lstat, open, rm } from 'node:fs/promises'
import { dirname } from 'node:path'
import type { FileRead } from './config-file.ts'

/** Leaves a file that is there as it is, whatever it holds. */
export async function makeSecretFile(path: string, make: () => string): Promise<FileRead<'made' | 'found'>> {
  try {
    if (await isThere(path)) return { ok: true, value: 'found' }
    const draft = `${path}.${randomUUID()}.new`
    await writeDraft(draft, make())
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
    return { ok: false, problem: `is not there and cannot be made (${code}): make its folder, writable for this user, or correct the path` }
  }
}

const isThere = (path: string): Promise<boolean> =>
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

/** A name that a power cut takes away again would be a key lost after it was used. */
async function syncFolder(path: string): Promise<void> {
  await using folder = await open(path, constants.O_RDONLY)
  await folder.sync().catch(() => undefined)
}
