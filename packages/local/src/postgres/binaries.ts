// Finds PostgreSQL: the npm platform package, else a system PostgreSQL of version 15 or later.
import { existsSync, realpathSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { delimiter, dirname, join } from 'node:path'
import { readProgramOutput } from '../supervisor/program-output.ts'
import { platformPackage, prepareNative } from './platform-package.ts'
import type { OsUser } from './unprivileged.ts'

export type PostgresBinaries = { initdb: string; postgres: string; version: string; source: 'npm' | 'system' }
export type FindOptions = {
  cache: string
  /** User of the server process, if it differs from the current user. */
  user?: OsUser | undefined
  /** Tests: never a system PostgreSQL, so that every machine tests the same server. */
  npmOnly?: boolean
  /** Folders of programs, as in PATH. */
  path?: string
}

const oldestMajor = 15

export async function findPostgres(options: FindOptions): Promise<PostgresBinaries> {
  const failures: string[] = []
  for (const find of options.npmOnly === true ? [findNpmPostgres] : [findNpmPostgres, findSystemPostgres]) {
    const binaries = await find(options)
    if (typeof binaries !== 'string') return binaries
    failures.push(binaries)
  }
  const otherWays = options.npmOnly === true ? '' : ', install PostgreSQL 15 or later, or name a running one with --database-url'
  throw new Error(`no PostgreSQL found: ${failures.join('; ')}. Run npm ci without --omit=optional${otherWays}.`)
}

/** Returns a text with the reason if there are no programs. */
async function findNpmPostgres(options: FindOptions): Promise<PostgresBinaries | string> {
  const platform = platformPackage()
  if (platform.native === undefined) return `the npm package ${platform.name} is not installed`
  return inspect(join(await prepareNative(platform, options.cache, options.user), 'bin'), 'npm')
}

export async function findSystemPostgres(options: Pick<FindOptions, 'path'>): Promise<PostgresBinaries | string> {
  const failures: string[] = []
  for (const folder of await systemFolders(options.path ?? process.env['PATH'] ?? '')) {
    const binaries = await inspect(folder, 'system')
    if (typeof binaries !== 'string' && Number.parseInt(binaries.version, 10) >= oldestMajor) return binaries
    failures.push(typeof binaries === 'string' ? binaries : `${folder} has version ${binaries.version}, older than ${oldestMajor}`)
  }
  return failures.length === 0 ? 'no system PostgreSQL in PATH or /usr/lib/postgresql' : failures.join('; ')
}

/** Resolved folders that contain both programs, without duplicates. Debian installs versions outside PATH; the latest comes first. */
async function systemFolders(path: string): Promise<string[]> {
  const debian = '/usr/lib/postgresql'
  const versions = existsSync(debian) ? (await readdir(debian)).toSorted((a, b) => Number(b) - Number(a)) : []
  const folders = [...path.split(delimiter).filter(Boolean), ...versions.map((version) => join(debian, version, 'bin'))]
  const programs = folders.map((folder) => join(folder, 'postgres')).filter((file) => existsSync(file))
  const real = programs.map((file) => dirname(realpathSync(file))).filter((folder) => existsSync(join(folder, 'initdb')))
  return [...new Set(real)]
}

/** Runs the server to read its version, which also proves that it works on this machine. */
async function inspect(folder: string, source: 'npm' | 'system'): Promise<PostgresBinaries | string> {
  const postgres = join(folder, 'postgres')
  try {
    const version = /\(PostgreSQL\) ([0-9][0-9.]*)/.exec(await readProgramOutput(postgres, ['--version'], { LC_ALL: 'C' }))?.[1]
    return version === undefined ? `${postgres} printed no version` : { initdb: join(folder, 'initdb'), postgres, version, source }
  } catch (error) {
    return `${postgres} does not run here (${error instanceof Error ? error.message.split('\n').at(-1) : String(error)})`
  }
}
