// Checkpoint in a file, for a processor outside a cluster. Written to a temporary file, flushed and renamed, so that a kill leaves the old
// or the new content.
import { randomBytes } from 'node:crypto'
import { open, readFile, rename } from 'node:fs/promises'
import { hostname } from 'node:os'
import { dirname, resolve } from 'node:path'
import { UnreadableCheckpoint } from '@brokkr/contract/dataflow/checkpoint.ts'
import { z } from 'zod'
import { type CheckpointStore, StoreConflict } from './checkpoint-store.ts'

const StoredFile = z.object({ version: z.string(), texts: z.record(z.string(), z.string()) })
type StoredFile = z.output<typeof StoredFile>

export function createFileStore(path: string): CheckpointStore {
  return {
    load: async () => ({ ...(await readStore(path)), storeId: `${hostname()}:${resolve(path)}` }),
    save: async (texts, version) => {
      const stored = await readStore(path)
      if (stored.version !== version) throw new StoreConflict(`${path} was written by another process`)
      const next = { version: randomBytes(8).toString('hex'), texts: { ...stored.texts, ...texts } }
      await replaceFile(path, JSON.stringify(next))
      return next.version
    },
  }
}

async function readStore(path: string): Promise<StoredFile> {
  let text: string
  try {
    text = await readFile(path, 'utf8')
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return { version: '', texts: {} }
    throw new Error(`the checkpoint in ${path} cannot be read`, { cause })
  }
  try {
    return StoredFile.parse(JSON.parse(text))
  } catch (cause) {
    throw new UnreadableCheckpoint(`the checkpoint in ${path} cannot be read: delete the file to start without a checkpoint`, { cause })
  }
}

async function replaceFile(path: string, text: string): Promise<void> {
  const draft = `${path}.${randomBytes(4).toString('hex')}.tmp`
  const file = await open(draft, 'wx', 0o600)
  try {
    await file.writeFile(text)
    await file.sync()
  } finally {
    await file.close()
  }
  await rename(draft, path)
  const folder = await open(dirname(path), 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
