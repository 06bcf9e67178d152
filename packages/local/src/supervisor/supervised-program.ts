// One supervised program: started, restarted with growing pauses after it exits, and failed after too many consecutive exits. `stop`
// does not count as an exit.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { type Ready, waitUntilReady } from './ready-probe.ts'
import { type Exit, type OwnedProcess, spawnOwned } from './spawn-owned.ts'

export type Program = {
  name: string
  command: string
  args: readonly string[]
  env?: Record<string, string>
  /** Default: the folder of the supervisor. */
  cwd?: string
  /** Addresses it listens on, by purpose; recorded for other processes. */
  ports?: Record<string, number>
  ready: Ready
  readyLimitMs?: number
  stopGraceMs?: number
}

/** More than `attemptsMax` consecutive exits end supervision; a program that ran for `stableMs` resets the count. */
export type RestartPolicy = { baseMs: number; maxMs: number; attemptsMax: number; stableMs: number }

export type ProgramStatus = {
  name: string
  state: 'starting' | 'ready' | 'waiting' | 'failed' | 'stopped'
  pid: number
  startTime: string
  ports: Record<string, number>
  log: string
  restarts: number
  lastExit: Exit | undefined
}

export type SupervisedProgram = {
  /** Resolves at the first readiness; an exit before rejects with the end of the log. */
  readonly firstReady: Promise<void>
  status(): ProgramStatus
  stop(): Promise<void>
}

type Deps = {
  dir: string
  log: Log
  policy: RestartPolicy
  /** Called when pid or state changes. */
  onChange: (status: ProgramStatus) => void
}

export function superviseProgram(deps: Deps, program: Program): SupervisedProgram {
  const life = new ProgramSupervision(deps, program)
  return { firstReady: life.start(), status: () => life.status, stop: () => life.stop() }
}

class ProgramSupervision {
  status: ProgramStatus
  readonly #deps: Deps
  readonly #program: Program
  readonly #stopping = new AbortController()
  #process: OwnedProcess | undefined
  #restart: Promise<void> = Promise.resolve()
  #consecutiveExits = 0

  constructor(deps: Deps, program: Program) {
    this.#deps = deps
    this.#program = program
    const log = join(deps.dir, 'logs', `${program.name}.log`)
    this.status = {
      name: program.name,
      state: 'starting',
      pid: 0,
      startTime: '',
      ports: program.ports ?? {},
      log,
      restarts: 0,
      lastExit: undefined,
    }
  }

  async start(): Promise<void> {
    const process = this.#spawn()
    try {
      const isUp = await this.#isReady(process)
      if (!isUp) throw new Error(`it exited (${describeExit(await process.exited)})`)
    } catch (cause) {
      await process.stop(this.#program.stopGraceMs)
      this.#stopping.signal.throwIfAborted()
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw new Error(`${process.name} did not become ready: ${reason}; the end of ${process.logFile}:\n${process.logTail()}`, { cause })
    }
    this.#change({ state: 'ready' })
    this.#watch(process, performance.now())
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error(`${this.#program.name} is being stopped`))
    await this.#process?.stop(this.#program.stopGraceMs)
    await this.#restart
    this.#change({ state: 'stopped' })
  }

  #spawn(): OwnedProcess {
    const { name, command, args, env = {}, cwd = this.#deps.dir } = this.#program
    mkdirSync(cwd, { recursive: true })
    // In its own process group: Ctrl-C reaches only the supervisor, which stops the programs in order.
    this.#process = spawnOwned({ name, command, args, env, cwd, logFile: this.status.log, detached: true })
    this.#change({ state: 'starting', pid: this.#process.pid, startTime: this.#process.startTime })
    return this.#process
  }

  #isReady(process: OwnedProcess): Promise<boolean> {
    const limitMs = this.#program.readyLimitMs ?? 60_000
    return waitUntilReady(this.#program.ready, { isRunning: () => process.isRunning(), limitMs, signal: this.#stopping.signal })
  }

  #watch(process: OwnedProcess, readyAtMs: number): void {
    this.#restart = process.exited
      .then((exit) => (this.#stopping.signal.aborted ? undefined : this.#restartAfterExit(exit, performance.now() - readyAtMs)))
      .catch((error: unknown) => this.#deps.log.error('supervision failed', { name: process.name, error: String(error) }))
  }

  async #restartAfterExit(lastExit: Exit, livedMs: number): Promise<void> {
    if (livedMs >= this.#deps.policy.stableMs) this.#consecutiveExits = 0
    this.#deps.log.warn('program exited', { name: this.status.name, exit: describeExit(lastExit), log: this.status.log })
    this.#change({ lastExit })
    await this.#retryStart()
  }

  async #retryStart(): Promise<void> {
    const { policy, log } = this.#deps
    while (!this.#stopping.signal.aborted) {
      this.#consecutiveExits += 1
      if (this.#consecutiveExits > policy.attemptsMax) {
        this.#change({ state: 'failed' })
        log.error('program failed', { name: this.status.name, exits: this.#consecutiveExits, log: this.status.log })
        return
      }
      this.#change({ state: 'waiting' })
      const pauseMs = backoffDelayMs({ baseMs: policy.baseMs, maxMs: policy.maxMs }, this.#consecutiveExits - 1)
      if (!(await this.#pause(pauseMs))) return
      if (await this.#startAgain()) return
    }
  }

  /** False if `stop` interrupted it. */
  #pause(ms: number): Promise<boolean> {
    return sleep(ms, true, { signal: this.#stopping.signal }).catch(() => false)
  }

  async #startAgain(): Promise<boolean> {
    try {
      await this.start()
      this.#change({ restarts: this.status.restarts + 1 })
      this.#deps.log.info('program restarted', { name: this.status.name, pid: this.status.pid, restarts: this.status.restarts })
      return true
    } catch (error) {
      // Only the first line: the others are output of the program, which stays in its log.
      const message = String(error).split('\n')[0]
      if (!this.#stopping.signal.aborted) this.#deps.log.warn('program restart failed', { name: this.status.name, error: message })
      return false
    }
  }

  #change(part: Partial<ProgramStatus>): void {
    this.status = { ...this.status, ...part }
    this.#deps.onChange(this.status)
  }
}

function describeExit(exit: Exit): string {
  return exit.signal ?? `exit ${exit.code}`
}
