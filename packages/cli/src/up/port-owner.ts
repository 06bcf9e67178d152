// Finds the program that listens on a port of this machine, from the tables of the kernel. Only on Linux; elsewhere, and for
// processes of other users, the owner is not known.
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'

export interface PortOwner {
  readonly pid: number
  readonly command: string
}

const listening = '0A'

export function findPortOwner(port: number): PortOwner | null {
  const inodes = new Set(['tcp', 'tcp6'].flatMap((table) => listInodes(table, port)))
  if (inodes.size === 0) return null
  for (const name of list('/proc')) {
    if (!/^\d+$/.test(name)) continue
    const isOwner = list(`/proc/${name}/fd`).some((fd) => inodes.has(socketInode(`/proc/${name}/fd/${fd}`)))
    if (isOwner) return { pid: Number(name), command: readCommand(name) }
  }
  return null
}

/** Inodes of sockets that listen on the port; a line is `sl local_address rem_address st … inode`. */
function listInodes(table: string, port: number): string[] {
  const hex = port.toString(16).toUpperCase().padStart(4, '0')
  return read(`/proc/net/${table}`)
    .split('\n')
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter((fields) => fields[3] === listening && fields[1]?.endsWith(`:${hex}`) === true)
    .flatMap((fields) => fields[9] ?? [])
}

function socketInode(path: string): string {
  try {
    return /^socket:\[(\d+)\]$/.exec(readlinkSync(path))?.[1] ?? ''
  } catch {
    return ''
  }
}

const readCommand = (pid: string): string => read(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim().slice(0, 200)

function list(path: string): string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}
