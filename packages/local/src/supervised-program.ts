// One program under supervision: started, waited for, started again with growing pauses when it dies, given up after too many deaths
// in a row. A death on purpose (stop) is none.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { type Ready, waitUntilReady } from './ready-probe.ts'
import { type Exit, type OwnedProcess, spawnOwned } from './spawn-owned.ts'

export type Program = {
  name: string
  command: string
  args: readonly string[]
  env?: Record<string, string>
  /** The supervisor's folder unless told. */
  cwd?: string
  /** What it listens on, by purpose; recorded for others to find. */
  ports?: Record<string, number>
  ready: Ready
  readyLimitMs?: number
  stopGraceMs?: number
}

/** `tries` deaths in a row end it; a life of `stableMs` forgives the earlier ones. */
export type RestartPolicy = { baseMs: number; maxMs: number; tries: number; stableMs: number }

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
  /** Settles when it is ready for the first time; until then a death is an error with the end of its log. */
  readonly firstReady: Promise<void>
  status(): ProgramStatus
  stop(): Promise<void>
}

type Deps = {
  dir: string
  log: Log
  policy: RestartPolicy
  /** The pid or the state is another one. */
  onChange: (status: ProgramStatus) => void
}

export function superviseProgram(deps: Deps, program: Program): SupervisedProgram {
  const life = new Life(deps, program)
  return { firstReady: life.start(), status: () => life.status, stop: () => life.stop() }
}

class Life {
  status: ProgramStatus
  readonly #deps: Deps
  readonly #program: Program
  readonly #stopping = new AbortController()
  #process: OwnedProcess | undefined
  #revival: Promise<void> = Promise.resolve()
  #deathsInRow = 0

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
      if (!isUp) throw new Error(`it ended first (${describeExit(await process.exited)})`)
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
    await this.#revival
    this.#change({ state: 'stopped' })
  }

  #spawn(): OwnedProcess {
    const { name, command, args, env = {}, cwd = this.#deps.dir } = this.#program
    mkdirSync(cwd, { recursive: true })
    // A group of its own: Ctrl-C reaches the supervisor alone, which stops the programs in their order.
    this.#process = spawnOwned({ name, command, args, env, cwd, logFile: this.status.log, detached: true })
    this.#change({ state: 'starting', pid: this.#process.pid, startTime: this.#process.startTime })
    return this.#process
  }

  #isReady(process: OwnedProcess): Promise<boolean> {
    const limitMs = this.#program.readyLimitMs ?? 60_000
    return waitUntilReady(this.#program.ready, { isRunning: () => process.isRunning(), limitMs, signal: this.#stopping.signal })
  }

  #watch(process: OwnedProcess, readyAtMs: number): void {
    this.#revival = process.exited
      .then((exit) => (this.#stopping.signal.aborted ? undefined : this.#afterDeath(exit, performance.now() - readyAtMs)))
      .catch((error: unknown) => this.#deps.log.error('supervision failed', { name: process.name, reason: String(error) }))
  }

  async #afterDeath(lastExit: Exit, livedMs: number): Promise<void> {
    if (livedMs >= this.#deps.policy.stableMs) this.#deathsInRow = 0
    this.#deps.log.warn('program ended', { name: this.status.name, exit: describeExit(lastExit), log: this.status.log })
    this.#change({ lastExit })
    await this.#revive()
  }

  async #revive(): Promise<void> {
    const { policy, log } = this.#deps
    while (!this.#stopping.signal.aborted) {
      this.#deathsInRow += 1
      if (this.#deathsInRow > policy.tries) {
        this.#change({ state: 'failed' })
        log.error('program given up', { name: this.status.name, deaths: this.#deathsInRow, log: this.status.log })
        return
      }
      this.#change({ state: 'waiting' })
      const pauseMs = backoffDelayMs({ baseMs: policy.baseMs, maxMs: policy.maxMs }, this.#deathsInRow - 1)
      if (!(await this.#pause(pauseMs))) return
      if (await this.#startAgain()) return
    }
  }

  /** False when it was cut short by a stop. */
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
      // The first line alone: the others are the program's own output, which stays in its log.
      const reason = String(error).split('\n')[0]
      if (!this.#stopping.signal.aborted) this.#deps.log.warn('program did not restart', { name: this.status.name, reason })
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
