// A checkpoint in a file, for a processor outside a cluster: renamed into place and flushed, so that a kill at any instant leaves the
// old or the new one.
import { randomBytes } from 'node:crypto'
import { open, readFile, rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import { z } from 'zod'
import { type CheckpointStore, StoreConflict } from './checkpoint-store.ts'

const Kept = z.object({ version: z.string(), texts: z.record(z.string(), z.string()) })
type Kept = z.output<typeof Kept>

export function checkpointFile(path: string): CheckpointStore {
  return {
    load: () => read(path),
    save: async (texts, version) => {
      const kept = await read(path)
      if (kept.version !== version) throw new StoreConflict(`${path} was written by another process`)
      const next = { version: randomBytes(8).toString('hex'), texts: { ...kept.texts, ...texts } }
      await replace(path, JSON.stringify(next))
      return next.version
    },
  }
}

async function read(path: string): Promise<Kept> {
  try {
    return Kept.parse(JSON.parse(await readFile(path, 'utf8')))
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === 'ENOENT') return { version: '', texts: {} }
    throw new Error(`the checkpoint in ${path} cannot be read: move it away to begin anew`, { cause })
  }
}

async function replace(path: string, text: string): Promise<void> {
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
