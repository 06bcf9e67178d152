// Paths of one PostgreSQL server: data, socket, password, log. Under root, the server user must be able to read them, and the path of a
// Unix socket must be short, so both can be in another folder, which depends only on `dir`.
import { createHash } from 'node:crypto'
import { chmodSync, chownSync, existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readStartTime } from '../supervisor/process-table.ts'
import { writeAtomic } from '../supervisor/write-atomic.ts'
import { ensureSharedFolder, firstClosedFolder, type OsUser, unprivilegedUser } from './unprivileged.ts'

export type PostgresFolders = {
  home: string
  dataDir: string
  socketDir: string
  passwordFile: string
  logFile: string
  recordFile: string
  /** User of the server process, if it differs from the current user. */
  user: OsUser | undefined
}

/** Linux and macOS differ by four bytes; the terminating zero is not counted. */
const socketPathBytesMax = process.platform === 'linux' ? 107 : 103

/** Selects the paths and creates the home folder; data and socket folders are created later. */
export function preparePostgresFolders(dir: string, port: number): PostgresFolders {
  mkdirSync(dir, { recursive: true })
  const user = serverUser(join(dir, 'data'))
  const home = user === undefined ? realpathSync(dir) : ensureReachableHome(realpathSync(dir), user)
  return {
    home,
    dataDir: join(home, 'data'),
    socketDir: chooseSocketDir({ home, tmp: tmpdir(), port }),
    passwordFile: join(home, 'password'),
    logFile: join(home, 'postgres.log'),
    recordFile: join(home, 'server.json'),
    user,
  }
}

/** `run` beside the data, or a folder in the temporary directory if that path is too long for a Unix socket. */
export function chooseSocketDir(options: { home: string; tmp: string; port: number }): string {
  const candidates = [join(options.home, 'run'), join(options.tmp, `brokkr-pg-${shortHash(options.home)}`)]
  const sizes = candidates.map((folder) => Buffer.byteLength(join(folder, `.s.PGSQL.${options.port}`)))
  const fit = candidates.find((_, index) => (sizes[index] ?? 0) <= socketPathBytesMax)
  if (fit !== undefined) return fit
  const [beside, short] = candidates
  throw new Error(
    `the Unix socket of PostgreSQL would have a path of ${sizes[0]} bytes in ${beside} and of ${sizes[1]} in ${short}, but the system allows ${socketPathBytesMax}; use a shorter folder, or set TMPDIR to one`,
  )
}

/** Mode 0700, owned by the server's user: a user that can enter could connect to the server or place a false socket there. */
export function makeSocketDir({ socketDir, user }: Pick<PostgresFolders, 'socketDir' | 'user'>): void {
  mkdirSync(socketDir, { recursive: true, mode: 0o700 })
  const stats = lstatSync(socketDir)
  const isOurs = stats.isDirectory() && [process.getuid?.(), user?.uid].includes(stats.uid)
  if (!isOurs) throw new Error(`${socketDir} belongs to another user (uid ${stats.uid}); remove it, or start in another folder`)
  if (user !== undefined) chownSync(socketDir, user.uid, user.gid)
  chmodSync(socketDir, 0o700)
}

/** Under root: the owner of existing data, else an unprivileged user. */
function serverUser(dataDir: string): OsUser | undefined {
  const fallbackUser = unprivilegedUser()
  const owner = fallbackUser === undefined ? undefined : statSync(dataDir, { throwIfNoEntry: false })
  return owner === undefined || owner.uid === 0 ? fallbackUser : { uid: owner.uid, gid: owner.gid }
}

/** Returns `dir` if the user can reach it, or could after adding execute permission to `dir` itself; else a shared folder. */
function ensureReachableHome(dir: string, user: OsUser): string {
  const stats = statSync(dir)
  if (firstClosedFolder(dir, user) === dir && stats.uid === process.getuid?.()) chmodSync(dir, stats.mode | 0o011)
  if (firstClosedFolder(dir, user) === undefined) return dir
  sweepAbandoned(ensureSharedFolder(user))
  const home = relocatedHome(dir, user)
  mkdirSync(home, { recursive: true })
  chmodSync(home, 0o711)
  writeAtomic(join(home, 'belongs-to'), dir)
  return home
}

/** Path of the data of `dir` if the server user cannot reach `dir`. */
export function relocatedHome(dir: string, user: OsUser): string {
  return join(ensureSharedFolder(user), `pg-${shortHash(dir)}`)
}

/** Removes relocated data after its `dir` was deleted. */
function sweepAbandoned(folder: string): void {
  for (const name of readdirSync(folder)) {
    const home = join(folder, name)
    const note = join(home, 'belongs-to')
    if (!name.startsWith('pg-') || !existsSync(note) || existsSync(readFileSync(note, 'utf8'))) continue
    if (!isServed(join(home, 'data', 'postmaster.pid'))) rmSync(home, { recursive: true, force: true })
  }
}

function isServed(pidFile: string): boolean {
  return existsSync(pidFile) && readStartTime(Number.parseInt(readFileSync(pidFile, 'utf8'), 10)) !== undefined
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12)
}
