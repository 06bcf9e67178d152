// One life of the server process: started by us, or found running and adopted. Ready means that its log says so and that it answers.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '@brokkr/runtime/log.ts'
import type { PostgresFolders } from './postgres-folders.ts'
import { type FoundServer, findServer, recordServer } from './postmaster-record.ts'
import { isSameProcess, killRecorded, type RecordedProcess } from './process-table.ts'
import { spawnOwned } from './spawn-owned.ts'

export type Postmaster = RecordedProcess & {
  isRunning(): boolean
  kill(signal: NodeJS.Signals): boolean
  /** False when it is still there after the limit. */
  ended(limitMs: number): Promise<boolean>
  /** INT (clients are cut off, everything is written), then QUIT, then KILL. */
  stop(): Promise<void>
}

export type PostmasterContext = {
  commandLine: [command: string, ...args: string[]]
  folders: PostgresFolders
  adopt: boolean
  /** One connection and one query; throws while the server does not answer. */
  ask: () => Promise<void>
  log: Log | undefined
  signal: AbortSignal | undefined
}

const startLimitMs = 300_000

export async function runPostmaster(context: PostmasterContext): Promise<Postmaster> {
  const found = findServer(context.folders)
  const adopted = found === undefined ? undefined : await adopt(context, found)
  return adopted ?? start(context)
}

/** Undefined when it is gone in the end: it was on its way down, or ran with other settings and was stopped. */
async function adopt(context: PostmasterContext, found: FoundServer): Promise<Postmaster | undefined> {
  if (!context.adopt) throw new Error(`PostgreSQL runs already on ${context.folders.dataDir} (pid ${found.pid}); stop it first`)
  const running = handle(found)
  if (JSON.stringify(found.commandLine) !== JSON.stringify(context.commandLine)) {
    context.log?.info('stopping a running postgres that has other settings', { pid: found.pid })
    await running.stop()
    return undefined
  }
  if (!(await answers(context, running))) return undefined
  context.log?.info('adopted a running postgres', { pid: found.pid })
  return running
}

async function start(context: PostmasterContext): Promise<Postmaster> {
  const deadlineMs = performance.now() + startLimitMs
  for (;;) {
    const { logFile, dataDir } = context.folders
    const tail = await startOnce(context, deadlineMs)
    if (typeof tail !== 'string') return tail
    // The children of a server that was killed need a moment to notice; until then they hold its shared memory.
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
    const isUp = (await saysReady(context, { started, logTail, deadlineMs })) && (await answers(context, started))
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
    // Not KILL: PostgreSQL then takes its children along and removes its shared memory.
    deathSignal: 'QUIT',
    // A group of its own: Ctrl-C must reach us alone, so that the programs that use the server stop first.
    detached: true,
    ...(user === undefined ? {} : { runAs: user }),
  })
  return { started: handle(owned), logTail: (lines) => owned.logTail(lines) }
}

type Start = { started: Postmaster; logTail: (lines: number) => string; deadlineMs: number }

/** False when the process ended first, or the time is over. */
async function saysReady(context: PostmasterContext, { started, logTail, deadlineMs }: Start): Promise<boolean> {
  for (;;) {
    const isRunning = started.isRunning()
    if (/database system is ready to accept (read-only )?connections/.test(logTail(1000))) return true
    context.signal?.throwIfAborted()
    if (!isRunning || performance.now() > deadlineMs) return false
    await sleep(20)
  }
}

/** It may still be recovering, or be on its way down: waits until it answers (true) or is gone (false). */
async function answers(context: PostmasterContext, running: Postmaster): Promise<boolean> {
  const deadlineMs = performance.now() + startLimitMs
  for (;;) {
    const refusal = await context.ask().then(
      () => undefined,
      (error: unknown) => error,
    )
    if (refusal === undefined) return true
    if (isWrongPassword(refusal))
      throw new Error(`PostgreSQL refuses the password in ${context.folders.passwordFile}; put the right one back`)
    if (!running.isRunning()) return false
    context.signal?.throwIfAborted()
    const late = performance.now() > deadlineMs
    if (late) throw new Error(`PostgreSQL (pid ${running.pid}) on ${context.folders.dataDir} does not answer`, { cause: refusal })
    await sleep(50)
  }
}

function isWrongPassword(refusal: unknown): boolean {
  return refusal instanceof Error && 'code' in refusal && refusal.code === '28P01'
}

/** By pid and start time alone, so that it serves children and adopted servers alike. */
function handle(recorded: RecordedProcess): Postmaster {
  const { pid, startTime } = recorded
  const isRunning = () => isSameProcess(pid, startTime)
  const kill = (signal: NodeJS.Signals) => killRecorded({ pid, startTime }, signal)
  const ended = async (limitMs: number) => {
    const deadlineMs = performance.now() + limitMs
    while (isRunning() && performance.now() < deadlineMs) await sleep(20)
    return !isRunning()
  }
  return { pid, startTime, isRunning, kill, ended, stop: () => stop(pid, { kill, ended }) }
}

async function stop(pid: number, running: Pick<Postmaster, 'kill' | 'ended'>): Promise<void> {
  const steps = [
    ['SIGINT', 30_000],
    ['SIGQUIT', 10_000],
    ['SIGKILL', 30_000],
  ] as const
  for (const [signal, graceMs] of steps) if (!running.kill(signal) || (await running.ended(graceMs))) return
  throw new Error(`PostgreSQL (pid ${pid}) did not end 30 s after KILL`)
}
