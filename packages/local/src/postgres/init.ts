// Creates the data folder of a server once. initdb writes to a folder beside it that is renamed at the end, so a killed initdb leaves
// no incomplete data.
import { randomBytes } from 'node:crypto'
import { chownSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { endsWithin, spawnOwned } from '../supervisor/spawn-owned.ts'
import { writeAtomic } from '../supervisor/write-atomic.ts'
import type { PostgresBinaries } from './binaries.ts'
import type { PostgresFolders } from './folders.ts'

/** Returns the password of the user `postgres`, which is stored beside the data. */
export async function ensurePostgresData(binaries: PostgresBinaries, folders: PostgresFolders, fsync: boolean): Promise<string> {
  const hasData = existsSync(folders.dataDir)
  if (hasData) checkData(binaries, folders)
  const password = ensurePassword(folders.passwordFile, hasData)
  if (!hasData) await initializeData(binaries, folders, { password, fsync })
  return password
}

function checkData(binaries: PostgresBinaries, folders: PostgresFolders): void {
  const owner = statSync(folders.dataDir).uid
  const expectedUid = folders.user?.uid ?? process.getuid?.() ?? owner
  if (owner !== expectedUid)
    throw new Error(`the data in ${folders.dataDir} belong to uid ${owner}, not ${expectedUid}; start as that user, or use another folder`)
  const dataVersion = readFileSync(join(folders.dataDir, 'PG_VERSION'), 'utf8').trim()
  const major = String(Number.parseInt(binaries.version, 10))
  if (dataVersion === major) return
  throw new Error(
    `the data in ${folders.dataDir} were written by PostgreSQL ${dataVersion}, but ${binaries.postgres} is version ${major}; dump and load them with version ${dataVersion}, or move the folder away to start empty`,
  )
}

/** Written before the data, so that data never exists without its password. */
function ensurePassword(file: string, isNeeded: boolean): string {
  if (existsSync(file)) return readFileSync(file, 'utf8').trim()
  if (isNeeded)
    throw new Error(`${file}, the password of the database beside it, is missing; restore it, or move the data away to start empty`)
  const password = randomBytes(24).toString('base64url')
  writeAtomic(file, `${password}\n`)
  return password
}

async function initializeData(binaries: PostgresBinaries, folders: PostgresFolders, options: { password: string; fsync: boolean }) {
  const draft = `${folders.dataDir}.new`
  const passwordCopy = join(folders.socketDir, 'initial-password')
  rmSync(draft, { recursive: true, force: true })
  mkdirSync(draft, { mode: 0o700 })
  writeFileSync(passwordCopy, options.password, { mode: 0o600 })
  for (const path of [draft, passwordCopy]) if (folders.user !== undefined) chownSync(path, folders.user.uid, folders.user.gid)
  try {
    await runInitdb(binaries, folders, [...initdbArguments(draft, passwordCopy), ...(options.fsync ? [] : ['--no-sync'])])
  } finally {
    rmSync(passwordCopy, { force: true })
  }
  renameSync(draft, folders.dataDir)
}

function initdbArguments(dataDir: string, passwordFile: string): string[] {
  return [
    '-D',
    dataDir,
    '-U',
    'postgres',
    '-A',
    'scram-sha-256',
    `--pwfile=${passwordFile}`,
    '-E',
    'UTF8',
    '--locale=C',
    '--no-instructions',
  ]
}

async function runInitdb(binaries: PostgresBinaries, folders: PostgresFolders, args: string[]): Promise<void> {
  const { initdb } = binaries
  const logFile = join(folders.home, 'initdb.log')
  const env = { LC_ALL: 'C', TZ: 'UTC' }
  const user = folders.user === undefined ? {} : { runAs: folders.user }
  const run = spawnOwned({ name: 'initdb', command: initdb, args, cwd: folders.socketDir, env, logFile, detached: true, ...user })
  if (!(await endsWithin(run.exited, 300_000))) await run.stop(0)
  const { code, signal } = await run.exited
  if (code !== 0)
    throw new Error(`initdb failed (${signal ?? `exit ${code}`}) for ${folders.dataDir}; the end of ${logFile}:\n${run.logTail()}`)
}
