// Reads manifests from a file, standard input, or the files of a folder and its folders in the order of their names. Rejects symbolic
// links in a folder, and limits the number of files and bytes.
import type { FileHandle } from 'node:fs/promises'
import { open, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { openUnder, PathRefused } from '@brokkr/runtime/safe-path.ts'
import { CliError, exitCodes } from '../../output.ts'

/** The broker's default limit of one submission. */
export const manifestBytesMax = 8 * 1024 * 1024
const filesMax = 2_000
const entriesMax = 20_000
const depthMax = 16
/** Settings of `brokkr apply`, not a manifest. */
export const projectFileName = 'brokkr.yaml'
const separator = '\n---\n'

export async function readManifests(path: string): Promise<string> {
  const budget: Budget = { path, left: manifestBytesMax }
  if (path === '-') return readAll(process.stdin, budget)
  const stats = await stat(path).catch((cause: unknown) => unreadable(path, cause))
  if (stats.isDirectory()) return readFolder(path, budget)
  return readHandle(await open(path, 'r').catch((cause: unknown) => unreadable(path, cause)), budget)
}

async function readFolder(folder: string, budget: Budget): Promise<string> {
  const names = await listManifests(folder)
  if (names.length === 0) throw usage('the folder contains no manifest', folder, 'name a folder with .yaml, .yml or .json files')
  const texts: string[] = []
  for (const name of names) {
    texts.push(await readHandle(await openUnder(folder, name).catch((cause: unknown) => unreadable(`${folder}/${name}`, cause)), budget))
    budget.left -= separator.length
  }
  return texts.join(separator)
}

/** Paths below the folder in the order of their names, folders included. Names with a leading dot and the project file are not read. */
async function listManifests(folder: string): Promise<string[]> {
  const found: string[] = []
  let entriesLeft = entriesMax
  const visit = async (path: string, depth: number): Promise<void> => {
    if (depth > depthMax) throw usage(`folders are nested deeper than ${depthMax}`, join(folder, path), 'name a folder further down')
    const entries = await readdir(join(folder, path), { withFileTypes: true }).catch((cause: unknown) =>
      unreadable(join(folder, path), cause),
    )
    for (const entry of entries.toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      if (--entriesLeft < 0) throw usage(`the folder contains more than ${entriesMax} entries`, folder, 'name a folder with manifests only')
      const name = path === '' ? entry.name : `${path}/${entry.name}`
      if (entry.name.startsWith('.') || name === projectFileName) continue
      if (entry.isSymbolicLink()) unreadable(join(folder, name), new PathRefused(name, 'it is a symbolic link', 'link_refused'))
      const isManifest = /\.(ya?ml|json)$/.test(entry.name)
      if (entry.isDirectory() && !isManifest) await visit(name, depth + 1)
      else if (isManifest) found.push(name)
      if (found.length > filesMax) throw usage(`the folder contains more than ${filesMax} manifests`, folder, 'split the stack')
    }
  }
  await visit('', 0)
  return found
}

interface Budget {
  readonly path: string
  left: number
}

async function readHandle(handle: FileHandle, budget: Budget): Promise<string> {
  try {
    return await readAll(handle.createReadStream({ autoClose: false }), budget)
  } finally {
    await handle.close()
  }
}

async function readAll(from: Readable, budget: Budget): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of from as AsyncIterable<Buffer>) {
    budget.left -= chunk.length
    if (budget.left < 0) throw usage(`the manifests have more than ${manifestBytesMax} bytes`, budget.path, 'split the stack')
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

const usage = (message: string, where: string, next: string, cause?: unknown): CliError =>
  new CliError(message, { where, next, exitCode: exitCodes.usage, cause })

function unreadable(where: string, cause: unknown): never {
  if (cause instanceof PathRefused)
    throw usage(
      `${cause.code}: the folder contains an entry that is not a regular file`,
      where,
      'replace the link by its target file',
      cause,
    )
  throw usage('the manifest cannot be read', where, 'name a file, a folder, or - for standard input', cause)
}
