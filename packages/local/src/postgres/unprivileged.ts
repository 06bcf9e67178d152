// PostgreSQL refuses to run as root, so under root it runs as an unprivileged user. That user must be able to enter every parent
// folder; otherwise the message of the server ("libssl.so.1.1: cannot open shared object file") hides the cause.
import { lstatSync, mkdirSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

export type OsUser = { uid: number; gid: number }

/** User of servers that root starts; undefined if this process does not run as root. */
export function unprivilegedUser(): OsUser | undefined {
  return process.getuid?.() === 0 ? userFromPasswd(readPasswd()) : undefined
}

/** User `nobody`, else any user except root: initdb rejects a uid without a name. macOS has a negative uid for nobody. */
export function userFromPasswd(passwd: string): OsUser {
  const users = passwd.split('\n').flatMap((line) => {
    const [name, , uid, gid] = line.split(':')
    const isUsable = /^-?[1-9][0-9]*$/.test(uid ?? '') && /^-?[0-9]+$/.test(gid ?? '')
    return isUsable ? [{ name, uid: Number(uid) >>> 0, gid: Number(gid) >>> 0 }] : []
  })
  const chosen = users.find((user) => user.name === 'nobody') ?? users.at(-1)
  return chosen === undefined ? { uid: 65534, gid: 65534 } : { uid: chosen.uid, gid: chosen.gid }
}

/** The first folder on the path (including itself) that the user may not enter; undefined if it can reach the path. */
export function firstClosedFolder(path: string, user: OsUser): string | undefined {
  const folders = parents(realpathSync(path))
  return folders.find((folder) => !canEnter(statSync(folder), user))
}

/** True if the user may enter the folder or run the file. The first matching permission class decides, as in the kernel. */
export function canEnter(stats: { mode: number; uid: number; gid: number }, user: OsUser): boolean {
  if (stats.uid === user.uid) return (stats.mode & 0o100) !== 0
  if (stats.gid === user.gid) return (stats.mode & 0o010) !== 0
  return (stats.mode & 0o001) !== 0
}

/** A folder that every user can enter, for files of an unprivileged server that cannot reach the usual folders. */
export function ensureSharedFolder(user: OsUser): string {
  const failures: string[] = []
  for (const parent of ['/var/tmp', tmpdir()]) {
    const folder = join(parent, `brokkr-${process.getuid?.() ?? 0}`)
    const refusal = claimFolder(folder, user)
    if (refusal === undefined) return folder
    failures.push(`${folder}: ${refusal}`)
  }
  throw new Error(
    `no folder that an unprivileged server can reach (${failures.join('; ')}); correct the permissions of one of them, or start as an ordinary user`,
  )
}

/** The name is predictable and its parent writable by all users, so a folder that another user created is rejected. */
function claimFolder(folder: string, user: OsUser): string | undefined {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o755 })
    const stats = lstatSync(folder)
    if (!stats.isDirectory()) return 'it is not a folder'
    if (stats.uid !== process.getuid?.()) return `it belongs to uid ${stats.uid}`
    if ((stats.mode & 0o022) !== 0) return 'other users can write to it'
    const closedParent = firstClosedFolder(folder, user)
    return closedParent === undefined ? undefined : `${closedParent} is closed to uid ${user.uid}`
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

function parents(path: string): string[] {
  const above = dirname(path)
  return above === path ? [path] : [...parents(above), path]
}

function readPasswd(): string {
  try {
    return readFileSync('/etc/passwd', 'utf8')
  } catch {
    return ''
  }
}
