// Where one PostgreSQL server keeps what: data, socket, password, log. Under root the server's user must be able to reach it, and a
// Unix socket's path must be short, so both can move to another folder, always the same one for the same `dir`.
import { createHash } from 'node:crypto'
import { chmodSync, chownSync, existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, realpathSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startTimeOf } from './process-table.ts'
import { firstClosedFolder, type OsUser, openFolder, unprivilegedUser } from './unprivileged.ts'
import { writeAtomic } from './write-atomic.ts'

export type PostgresFolders = {
  home: string
  dataDir: string
  socketDir: string
  passwordFile: string
  logFile: string
  recordFile: string
  /** Who runs the server, when that is not us. */
  user: OsUser | undefined
}

/** Linux and macOS differ by four bytes; the terminating zero is not counted. */
const socketPathBytesMax = process.platform === 'linux' ? 107 : 103

/** Decides the places and makes the server's home; the data folder and the socket's come later. */
export function preparePostgresFolders(dir: string, port: number): PostgresFolders {
  mkdirSync(dir, { recursive: true })
  const user = serverUser(join(dir, 'data'))
  const home = user === undefined ? realpathSync(dir) : reachableHome(realpathSync(dir), user)
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

/** `run` beside the data; a short folder in the temporary one when that path is too long for a Unix socket. */
export function chooseSocketDir(place: { home: string; tmp: string; port: number }): string {
  const candidates = [join(place.home, 'run'), join(place.tmp, `brokkr-pg-${shortHash(place.home)}`)]
  const sizes = candidates.map((folder) => Buffer.byteLength(join(folder, `.s.PGSQL.${place.port}`)))
  const fit = candidates.find((_, index) => (sizes[index] ?? 0) <= socketPathBytesMax)
  if (fit !== undefined) return fit
  const [beside, short] = candidates
  throw new Error(
    `the Unix socket of PostgreSQL would have a path of ${sizes[0]} bytes in ${beside} and of ${sizes[1]} in ${short}, but the system allows ${socketPathBytesMax}; use a shorter folder, or set TMPDIR to one`,
  )
}

/** Mode 0700 and owned by the server's user: whoever can enter could talk to the server, or put a false socket there. */
export function makeSocketDir({ socketDir, user }: Pick<PostgresFolders, 'socketDir' | 'user'>): void {
  mkdirSync(socketDir, { recursive: true, mode: 0o700 })
  const seen = lstatSync(socketDir)
  const isOurs = seen.isDirectory() && [process.getuid?.(), user?.uid].includes(seen.uid)
  if (!isOurs) throw new Error(`${socketDir} belongs to somebody else (uid ${seen.uid}); remove it, or start in another folder`)
  if (user !== undefined) chownSync(socketDir, user.uid, user.gid)
  chmodSync(socketDir, 0o700)
}

/** Under root: who owns the data of an earlier run, else nobody. */
function serverUser(dataDir: string): OsUser | undefined {
  const nobody = unprivilegedUser()
  const owner = nobody === undefined ? undefined : statSync(dataDir, { throwIfNoEntry: false })
  return owner === undefined || owner.uid === 0 ? nobody : { uid: owner.uid, gid: owner.gid }
}

/** `dir` itself when only its own mode is in the way (it is ours to open for passing through), else a folder open to all. */
function reachableHome(dir: string, user: OsUser): string {
  const seen = statSync(dir)
  if (firstClosedFolder(dir, user) === dir && seen.uid === process.getuid?.()) chmodSync(dir, seen.mode | 0o011)
  if (firstClosedFolder(dir, user) === undefined) return dir
  sweepAbandoned(openFolder(user))
  const home = movedHome(dir, user)
  mkdirSync(home, { recursive: true })
  chmodSync(home, 0o711)
  writeAtomic(join(home, 'belongs-to'), dir)
  return home
}

/** Where the data of `dir` lie when the server's user cannot reach `dir`. */
export function movedHome(dir: string, user: OsUser): string {
  return join(openFolder(user), `pg-${shortHash(dir)}`)
}

/** Moved data whose `dir` was deleted would lie there for ever. */
function sweepAbandoned(folder: string): void {
  for (const name of readdirSync(folder)) {
    const home = join(folder, name)
    const note = join(home, 'belongs-to')
    if (!name.startsWith('pg-') || !existsSync(note) || existsSync(readFileSync(note, 'utf8'))) continue
    if (!isServed(join(home, 'data', 'postmaster.pid'))) rmSync(home, { recursive: true, force: true })
  }
}

function isServed(pidFile: string): boolean {
  return existsSync(pidFile) && startTimeOf(Number.parseInt(readFileSync(pidFile, 'utf8'), 10)) !== undefined
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12)
}
