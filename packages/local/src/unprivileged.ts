// PostgreSQL refuses to run as root, so under root it runs as an unprivileged user. That user must be able to reach every folder on
// the way; where it cannot, the server's own message ("libssl.so.1.1: cannot open shared object file") hides the cause.
import { lstatSync, mkdirSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

export type OsUser = { uid: number; gid: number }

/** The user that servers are dropped to; undefined when we are not root and need none. */
export function unprivilegedUser(): OsUser | undefined {
  return process.getuid?.() === 0 ? userFromPasswd(readPasswd()) : undefined
}

/** `nobody`, else any other user but root: initdb refuses a number without a name. macOS writes nobody as a negative number. */
export function userFromPasswd(passwd: string): OsUser {
  const users = passwd.split('\n').flatMap((line) => {
    const [name, , uid, gid] = line.split(':')
    const isUsable = /^-?[1-9][0-9]*$/.test(uid ?? '') && /^-?[0-9]+$/.test(gid ?? '')
    return isUsable ? [{ name, uid: Number(uid) >>> 0, gid: Number(gid) >>> 0 }] : []
  })
  const chosen = users.find((user) => user.name === 'nobody') ?? users.at(-1)
  return chosen === undefined ? { uid: 65534, gid: 65534 } : { uid: chosen.uid, gid: chosen.gid }
}

/** The first folder on the way to `path` (itself included) that the user may not enter; undefined when it can reach it. */
export function firstClosedFolder(path: string, user: OsUser): string | undefined {
  const folders = parents(realpathSync(path))
  return folders.find((folder) => !mayEnter(statSync(folder), user))
}

/** May this user pass through the folder (or run the file)? The first class that fits decides, as in the kernel. */
export function mayEnter(seen: { mode: number; uid: number; gid: number }, user: OsUser): boolean {
  if (seen.uid === user.uid) return (seen.mode & 0o100) !== 0
  if (seen.gid === user.gid) return (seen.mode & 0o010) !== 0
  return (seen.mode & 0o001) !== 0
}

/** A folder of ours that every user can reach, for what an unprivileged server needs when our own places are closed to it. */
export function openFolder(user: OsUser): string {
  const tried: string[] = []
  for (const parent of ['/var/tmp', tmpdir()]) {
    const folder = join(parent, `brokkr-${process.getuid?.() ?? 0}`)
    const refusal = claimFolder(folder, user)
    if (refusal === undefined) return folder
    tried.push(`${folder}: ${refusal}`)
  }
  throw new Error(
    `no folder that an unprivileged server can reach (${tried.join('; ')}); make one of them usable, or start as an ordinary user`,
  )
}

/** The name is guessable and its parent writable by all, so a folder that somebody else made there is refused. */
function claimFolder(folder: string, user: OsUser): string | undefined {
  try {
    mkdirSync(folder, { recursive: true, mode: 0o755 })
    const seen = lstatSync(folder)
    if (!seen.isDirectory()) return 'it is no folder'
    if (seen.uid !== process.getuid?.()) return `it belongs to uid ${seen.uid}`
    if ((seen.mode & 0o022) !== 0) return 'others may write to it'
    const closed = firstClosedFolder(folder, user)
    return closed === undefined ? undefined : `${closed} is closed to uid ${user.uid}`
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
