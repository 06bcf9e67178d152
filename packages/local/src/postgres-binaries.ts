// Finds PostgreSQL: the npm platform package, else a system PostgreSQL of version 15 or later.
import { existsSync, realpathSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { delimiter, dirname, join } from 'node:path'
import { askProgram } from './ask-program.ts'
import { platformPackage, usableNative } from './postgres-package.ts'
import type { OsUser } from './unprivileged.ts'

export type PostgresBinaries = { initdb: string; postgres: string; version: string; source: 'npm' | 'system' }
export type FindOptions = {
  cache: string
  /** The user the server will run as, when that is not us. */
  user?: OsUser | undefined
  /** Tests: never a system PostgreSQL, so that every machine tests the same server. */
  npmOnly?: boolean
  /** Folders of programs, as in PATH. */
  path?: string
}

const oldestMajor = 15

export async function findPostgres(options: FindOptions): Promise<PostgresBinaries> {
  const tried: string[] = []
  for (const find of options.npmOnly === true ? [fromNpm] : [fromNpm, fromSystem]) {
    const found = await find(options)
    if (typeof found !== 'string') return found
    tried.push(found)
  }
  const otherWays = options.npmOnly === true ? '' : ', install PostgreSQL 15 or later, or name a running one with --database-url'
  throw new Error(`no PostgreSQL found: ${tried.join('; ')}. Run npm ci without --omit=optional${otherWays}.`)
}

/** A text instead of programs says why there are none. */
async function fromNpm(options: FindOptions): Promise<PostgresBinaries | string> {
  const found = platformPackage()
  if (found.native === undefined) return `the npm package ${found.name} is not installed`
  return inspect(join(await usableNative(found, options.cache, options.user), 'bin'), 'npm')
}

export async function fromSystem(options: Pick<FindOptions, 'path'>): Promise<PostgresBinaries | string> {
  const seen: string[] = []
  for (const folder of await systemFolders(options.path ?? process.env['PATH'] ?? '')) {
    const found = await inspect(folder, 'system')
    if (typeof found !== 'string' && Number.parseInt(found.version, 10) >= oldestMajor) return found
    seen.push(typeof found === 'string' ? found : `${folder} has version ${found.version}, older than ${oldestMajor}`)
  }
  return seen.length === 0 ? 'no system PostgreSQL in PATH or /usr/lib/postgresql' : seen.join('; ')
}

/** Real folders with both programs, each once; Debian keeps its versions outside PATH, the newest comes first. */
async function systemFolders(path: string): Promise<string[]> {
  const debian = '/usr/lib/postgresql'
  const versions = existsSync(debian) ? (await readdir(debian)).toSorted((a, b) => Number(b) - Number(a)) : []
  const folders = [...path.split(delimiter).filter(Boolean), ...versions.map((version) => join(debian, version, 'bin'))]
  const programs = folders.map((folder) => join(folder, 'postgres')).filter((file) => existsSync(file))
  const real = programs.map((file) => dirname(realpathSync(file))).filter((folder) => existsSync(join(folder, 'initdb')))
  return [...new Set(real)]
}

/** Asks the server for its version, which also shows that it runs on this machine at all. */
async function inspect(folder: string, source: 'npm' | 'system'): Promise<PostgresBinaries | string> {
  const postgres = join(folder, 'postgres')
  try {
    const version = /\(PostgreSQL\) ([0-9][0-9.]*)/.exec(await askProgram(postgres, ['--version'], { LC_ALL: 'C' }))?.[1]
    return version === undefined ? `${postgres} does not tell its version` : { initdb: join(folder, 'initdb'), postgres, version, source }
  } catch (error) {
    return `${postgres} does not run here (${error instanceof Error ? error.message.split('\n').at(-1) : String(error)})`
  }
}
