// The only conversion of untrusted text (an archive entry, a path in a Git tree, a bundle) to a file: the path stays below a root
// after all links are followed, or it is rejected.
import { constants, type Stats } from 'node:fs'
import { type FileHandle, lstat, mkdir, open, realpath } from 'node:fs/promises'
import { join, sep } from 'node:path'
import { Terminal } from './errors.ts'
import { splitPath } from './split-path.ts'

export class PathRefused extends Terminal {
  constructor(foreignPath: string, why: string, code: 'path_outside_root' | 'link_refused' | 'not_a_file' = 'path_outside_root') {
    super(`path ${JSON.stringify(foreignPath.slice(0, 200))} refused: ${why}`, { code })
  }
}

/** Returns the real path, existing or not. Links that stay below the root are followed; links that leave it or are broken are
 *  rejected. The tree can change before the path is used: to read or write, use openUnder. */
export async function resolveUnder(root: string, foreignPath: string): Promise<string> {
  const parts = requireParts(foreignPath)
  const realRoot = await realpath(root)
  let path = realRoot
  for (const [index, part] of parts.entries()) {
    const next = join(path, part)
    const stats = await lstatOrNull(next)
    if (!stats) return join(path, ...parts.slice(index))
    path = stats.isSymbolicLink() ? await followUnder(realRoot, next, foreignPath) : next
  }
  return path
}

export type OpenUnder = {
  /** read: an existing file · create: a new one, never over another. */
  mode?: 'read' | 'create'
  /** Creates the folders in between. */
  makeParents?: boolean
  permissions?: number
}

/** Opens a regular file without following links below the root. Opens each folder relative to the previous open folder (on Linux),
 *  so that a folder replaced by a link in between is rejected too. */
export async function openUnder(root: string, foreignPath: string, options: OpenUnder = {}): Promise<FileHandle> {
  const parts = requireParts(foreignPath)
  const name = parts.pop()
  if (name === undefined) throw new PathRefused(foreignPath, 'it names the root itself', 'not_a_file')
  const realRoot = await realpath(root)
  let folder: Folder = { handle: await open(realRoot, folderFlags), path: realRoot }
  try {
    for (const part of parts) folder = await enter(folder, part, foreignPath, options)
    return await openFile(stepFrom(folder, name), foreignPath, options)
  } finally {
    await folder.handle.close()
  }
}

function requireParts(foreignPath: string): string[] {
  const parts = splitPath(foreignPath)
  if ('problem' in parts) throw new PathRefused(foreignPath, parts.problem)
  return parts.parts
}

async function lstatOrNull(path: string): Promise<Stats | null> {
  try {
    return await lstat(path)
  } catch (error) {
    if (['ENOENT', 'ENOTDIR'].includes(getErrorCode(error))) return null
    throw error
  }
}

async function followUnder(realRoot: string, link: string, foreignPath: string): Promise<string> {
  const target = await realpath(link).catch(() => null)
  if (target === null) throw new PathRefused(foreignPath, 'a link on the way leads nowhere')
  if (target !== realRoot && !target.startsWith(realRoot === sep ? sep : realRoot + sep))
    throw new PathRefused(foreignPath, 'a link on the way leaves the root')
  return target
}

const folderFlags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
type Folder = { handle: FileHandle; path: string }

/** The folder it leaves is closed when the next one is open; until then it is the caller's. */
async function enter(folder: Folder, part: string, foreignPath: string, options: OpenUnder): Promise<Folder> {
  const path = stepFrom(folder, part)
  if (options.makeParents) await mkdir(path, 0o700).catch(ignoreExisting)
  const handle = await open(path, folderFlags).catch((error: unknown) => refuseLink(error, foreignPath))
  await folder.handle.close()
  return { handle, path: join(folder.path, part) }
}

/** On Linux a step starts from the folder that is open, not from its name; elsewhere only each single step is checked. */
function stepFrom(folder: Folder, part: string): string {
  return process.platform === 'linux' ? `/proc/self/fd/${folder.handle.fd}/${part}` : join(folder.path, part)
}

async function openFile(path: string, foreignPath: string, options: OpenUnder): Promise<FileHandle> {
  const flags = options.mode === 'create' ? constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL : constants.O_RDONLY
  // Non-blocking: a named pipe or device must not block a thread.
  const handle = await open(path, flags | constants.O_NOFOLLOW | constants.O_NONBLOCK, options.permissions ?? 0o600).catch(
    (error: unknown) => refuseLink(error, foreignPath),
  )
  if ((await handle.stat()).isFile()) return handle
  await handle.close()
  throw new PathRefused(foreignPath, 'it is not a regular file', 'not_a_file')
}

/** Opening a link without following it fails with ELOOP, or ENOTDIR if a folder was requested. */
function refuseLink(error: unknown, foreignPath: string): never {
  if (getErrorCode(error) === 'ELOOP' || getErrorCode(error) === 'ENOTDIR')
    throw new PathRefused(foreignPath, 'a part of it is a link or no folder', 'link_refused')
  throw error
}

function ignoreExisting(error: unknown): void {
  if (getErrorCode(error) !== 'EEXIST') throw error
}

function getErrorCode(error: unknown): string {
  return String((error as NodeJS.ErrnoException).code)
}
