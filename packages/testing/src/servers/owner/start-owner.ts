// Starts the process that owns the servers of a run. Its standard input is the lifeline: when we end, however we end, it closes, and
// the owner stops every server and removes every folder.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { toSocketPath } from './protocol.ts'
import { runFolder } from './test-run.ts'

export type ServersOwner = {
  readonly pid: number
  readonly socketPath: string
  /** Returns when every server has ended and every folder is gone. */
  stop(): Promise<void>
}

/** Cleaning up after a killed run comes first, and a loaded machine is slow. */
const startLimitMs = 60_000
const stopLimitMs = 90_000

/** Which programs the servers are made of is read from the environment (BROKKR_CACHE, BROKKR_KUBE_ASSETS, PATH). */
export async function spawnServersOwner(env: NodeJS.ProcessEnv = process.env): Promise<ServersOwner> {
  const id = randomBytes(6).toString('hex')
  const program = fileURLToPath(new URL('./main.ts', import.meta.url))
  // A process group of its own: Ctrl-C in a terminal must not reach it before it reaches us.
  const child = spawn(process.execPath, [program, id], { env, detached: true, stdio: ['pipe', 'ignore', 'inherit'] })
  child.stdin.on('error', () => {})
  const exited = once(child, 'exit')
  const socketPath = toSocketPath(runFolder(id))
  await Promise.race([listens(socketPath), endedEarly(child, exited)])
  // A script that only asked for a server must still be able to end by itself.
  child.unref()
  ;(child.stdin as Socket).unref()
  return { pid: child.pid ?? 0, socketPath, stop: () => stop(child, exited) }
}

async function listens(socketPath: string): Promise<void> {
  const endMs = performance.now() + startLimitMs
  while (!(await isOpen(socketPath))) {
    if (performance.now() > endMs)
      throw new Error(`the process that owns the test servers does not listen on ${socketPath} after ${startLimitMs / 1000} s`)
    await sleep(10)
  }
}

function isOpen(socketPath: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(socketPath)
    socket.once('error', () => resolve(false))
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
  })
}

async function endedEarly(child: ChildProcess, exited: Promise<unknown>): Promise<never> {
  await exited
  throw new Error(
    `the process that owns the test servers ended with ${child.signalCode ?? `code ${child.exitCode}`}; its messages stand above`,
  )
}

async function stop(child: ChildProcess, exited: Promise<unknown>): Promise<void> {
  child.ref()
  child.stdin?.end()
  const limit = setTimeout(() => child.kill('SIGKILL'), stopLimitMs)
  if (child.exitCode === null && child.signalCode === null) await exited
  clearTimeout(limit)
}
