// One server process: started here, or found running and adopted. It is ready when its log reports so and a query succeeds.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { isSameProcess, killRecorded, type RecordedProcess } from '../supervisor/process-table.ts'
import { spawnOwned } from '../supervisor/spawn-owned.ts'
import type { PostgresFolders } from './folders.ts'
import { findServer, type RecordedServer, recordServer } from './postmaster-record.ts'

export type Postmaster = RecordedProcess & {
  isRunning(): boolean
  kill(signal: NodeJS.Signals): boolean
  /** False if it still runs after the limit. */
  waitUntilExited(limitMs: number): Promise<boolean>
  /** SIGINT (disconnects clients and writes a checkpoint), then SIGQUIT, then SIGKILL. */
  stop(): Promise<void>
}

export type PostmasterContext = {
  commandLine: [command: string, ...args: string[]]
  folders: PostgresFolders
  adopt: boolean
  /** Opens one connection and runs one query; throws if the server does not answer. */
  ask: () => Promise<void>
  log: Log | undefined
  signal: AbortSignal | undefined
}

const startLimitMs = 300_000

export async function runPostmaster(context: PostmasterContext): Promise<Postmaster> {
  const server = findServer(context.folders)
  const adopted = server === undefined ? undefined : await adopt(context, server)
  return adopted ?? start(context)
}

/** Undefined if the server was shutting down, or ran with other settings and was stopped. */
async function adopt(context: PostmasterContext, server: RecordedServer): Promise<Postmaster | undefined> {
  if (!context.adopt) throw new Error(`PostgreSQL runs already on ${context.folders.dataDir} (pid ${server.pid}); stop it first`)
  const running = toPostmaster(server)
  if (JSON.stringify(server.commandLine) !== JSON.stringify(context.commandLine)) {
    context.log?.info('running postgres with other settings stopped', { pid: server.pid })
    await running.stop()
    return undefined
  }
  if (!(await acceptsConnections(context, running))) return undefined
  context.log?.info('running postgres adopted', { pid: server.pid })
  return running
}

async function start(context: PostmasterContext): Promise<Postmaster> {
  const deadlineMs = performance.now() + startLimitMs
  for (;;) {
    const { logFile, dataDir } = context.folders
    const tail = await startOnce(context, deadlineMs)
    if (typeof tail !== 'string') return tail
    // Child processes of a killed server hold its shared memory until they notice.
    const isRetryable = /shared memory block .* is still in use/.test(tail) && performance.now() < deadlineMs
    if (!isRetryable) throw new Error(`PostgreSQL did not start on ${dataDir}; the end of ${logFile}:\n${tail}`)
    await sleep(100)
  }
}

/** The server, or the end of its log. */
async function startOnce(context: PostmasterContext, deadlineMs: number): Promise<Postmaster | string> {
  const { started, logTail } = spawnPostmaster(context)
  try {
    recordServer(context.folders, { pid: started.pid, startTime: started.startTime, commandLine: context.commandLine })
    const isUp = (await isLoggedReady(context, { started, logTail, deadlineMs })) && (await acceptsConnections(context, started))
    if (isUp) return started
  } catch (error) {
    await started.stop()
    throw error
  }
  await started.stop()
  return logTail(20)
}

function spawnPostmaster(context: PostmasterContext): { started: Postmaster; logTail: (lines: number) => string } {
  const { dataDir, logFile, user } = context.folders
  const [command, ...args] = context.commandLine
  const owned = spawnOwned({
    name: 'postgres',
    command,
    args,
    cwd: dataDir,
    env: { LC_ALL: 'C', TZ: 'UTC' },
    logFile,
    // Not SIGKILL: after SIGQUIT, PostgreSQL ends its children and removes its shared memory.
    deathSignal: 'QUIT',
    // In its own process group: Ctrl-C must reach only this process, which first stops the programs that use the server.
    detached: true,
    ...(user === undefined ? {} : { runAs: user }),
  })
  return { started: toPostmaster(owned), logTail: (lines) => owned.logTail(lines) }
}

type Start = { started: Postmaster; logTail: (lines: number) => string; deadlineMs: number }

/** False if the process ended first, or the time limit passed. */
async function isLoggedReady(context: PostmasterContext, { started, logTail, deadlineMs }: Start): Promise<boolean> {
  for (;;) {
    const isRunning = started.isRunning()
    if (/database system is ready to accept (read-only )?connections/.test(logTail(1000))) return true
    context.signal?.throwIfAborted()
    if (!isRunning || performance.now() > deadlineMs) return false
    await sleep(20)
  }
}

/** The server may be recovering or shutting down: waits until it answers (true) or has ended (false). */
async function acceptsConnections(context: PostmasterContext, running: Postmaster): Promise<boolean> {
  const deadlineMs = performance.now() + startLimitMs
  for (;;) {
    const refusal = await context.ask().then(
      () => undefined,
      (error: unknown) => error,
    )
    if (refusal === undefined) return true
    if (isWrongPassword(refusal))
      throw new Error(`PostgreSQL rejects the password in ${context.folders.passwordFile}; restore the correct one`)
    if (!running.isRunning()) return false
    context.signal?.throwIfAborted()
    const isOverdue = performance.now() > deadlineMs
    if (isOverdue) throw new Error(`PostgreSQL (pid ${running.pid}) on ${context.folders.dataDir} does not answer`, { cause: refusal })
    await sleep(50)
  }
}

function isWrongPassword(refusal: unknown): boolean {
  return refusal instanceof Error && 'code' in refusal && refusal.code === '28P01'
}

/** Uses only pid and start time, so that it works for children and adopted servers. */
function toPostmaster(recorded: RecordedProcess): Postmaster {
  const { pid, startTime } = recorded
  const isRunning = () => isSameProcess(pid, startTime)
  const kill = (signal: NodeJS.Signals) => killRecorded({ pid, startTime }, signal)
  const waitUntilExited = async (limitMs: number) => {
    const deadlineMs = performance.now() + limitMs
    while (isRunning() && performance.now() < deadlineMs) await sleep(20)
    return !isRunning()
  }
  return {
    pid,
    startTime,
    isRunning,
    kill,
    waitUntilExited: waitUntilExited,
    stop: () => stop(pid, { kill, waitUntilExited: waitUntilExited }),
  }
}

async function stop(pid: number, running: Pick<Postmaster, 'kill' | 'waitUntilExited'>): Promise<void> {
  const steps = [
    ['SIGINT', 30_000],
    ['SIGQUIT', 10_000],
    ['SIGKILL', 30_000],
  ] as const
  for (const [signal, graceMs] of steps) if (!running.kill(signal) || (await running.waitUntilExited(graceMs))) return
  throw new Error(`PostgreSQL (pid ${pid}) did not end 30 s after KILL`)
}
