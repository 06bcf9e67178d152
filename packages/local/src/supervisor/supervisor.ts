// Starts the programs of `brokkr up`, restarts them, and stops them in reverse order. One supervisor per folder; it records its
// processes there, so that the next one can stop those of a killed one.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { type LockHolder, lockHolder, tryLock } from './lock-file.ts'
import { type Program, type ProgramStatus, type RestartPolicy, superviseProgram } from './supervised-program.ts'
import { type RecordedProgram, readSupervisorState, stopRecorded, writeSupervisorState } from './supervisor-state.ts'

export type OtherSupervisor = { pid: number; startTime: string; address: string | undefined }

/** A process that another module started (PostgreSQL, the control plane); the supervisor records it and stops it in order. */
export type Part = {
  name: string
  pid: number
  startTime: string
  ports?: Record<string, number>
  log: string
  stopSignal?: NodeJS.Signals
  stop: () => Promise<void>
}

export type Supervisor = {
  /** Stores the address for a second supervisor in this folder. */
  announce(address: string): void
  /** Stops processes of an earlier, killed supervisor in reverse order, except the names in `keep`; returns the stopped ones. */
  sweep(options?: { keep?: readonly string[] }): Promise<string[]>
  /** Returns when the program is ready; otherwise throws with the end of its log. */
  start(program: Program): Promise<ProgramStatus>
  /** A known name replaces the record, because the part was restarted with another pid. */
  attach(part: Part): void
  running(): ProgramStatus[]
  stopAll(): Promise<void>
  /** Stops everything and releases the folder. */
  close(): Promise<void>
}

export type SupervisorOptions = { dir: string; log: Log; restart?: RestartPolicy; onChange?: (status: ProgramStatus) => void }

const defaultRestartPolicy: RestartPolicy = { baseMs: 500, maxMs: 30_000, attemptsMax: 5, stableMs: 60_000 }

export function createSupervisor(options: SupervisorOptions): { supervisor: Supervisor } | { alreadyRunning: OtherSupervisor } {
  mkdirSync(options.dir, { recursive: true })
  const outcome = tryLock(lockFolder(options.dir))
  if ('heldBy' in outcome) return { alreadyRunning: otherSupervisor(outcome.heldBy) }
  const supervision = new Supervision(options)
  const { lock } = outcome
  return {
    supervisor: {
      announce: (address) => lock.update({ address }),
      sweep: ({ keep = [] } = {}) => supervision.sweep(new Set(keep)),
      start: (program) => supervision.start(program),
      attach: (part) => supervision.attach(part),
      running: () => supervision.running(),
      stopAll: () => supervision.stopAll(),
      close: () => supervision.stopAll().finally(() => lock.release()),
    },
  }
}

/** The running supervisor of this folder, for `down` and `status`. */
export function findSupervisor(dir: string): OtherSupervisor | undefined {
  const holder = lockHolder(lockFolder(dir))
  return holder === undefined ? undefined : otherSupervisor(holder)
}

type AttachedPart = { status: () => ProgramStatus; stop: () => Promise<void>; stopSignal: NodeJS.Signals }

class Supervision {
  readonly #options: SupervisorOptions
  /** By name, in the order of their first start. */
  readonly #parts = new Map<string, AttachedPart>()
  /** Programs of an earlier supervisor; they stay in the state file until sweep. */
  #inherited: RecordedProgram[]

  constructor(options: SupervisorOptions) {
    this.#options = options
    this.#inherited = readSupervisorState(options.dir)
  }

  async sweep(keep: ReadonlySet<string>): Promise<string[]> {
    const stopped: string[] = []
    for (const program of this.#inherited.toReversed()) {
      if (keep.has(program.name)) continue
      if (await stopRecorded(program)) stopped.push(program.name)
      this.#inherited = this.#inherited.filter((one) => one !== program)
      this.#save()
    }
    if (stopped.length > 0) this.#options.log.info('programs of an earlier run stopped', { programs: stopped.join(', ') })
    return stopped
  }

  async start(program: Program): Promise<ProgramStatus> {
    if (!/^[a-z0-9][a-z0-9-]*$/.test(program.name)) throw new Error(`'${program.name}' is not a valid program name`)
    if (this.#parts.has(program.name)) throw new Error(`a program named ${program.name} is already supervised`)
    const { dir, log, restart: policy = defaultRestartPolicy } = this.#options
    const supervised = superviseProgram({ dir, log, policy, onChange: (status) => this.#changed(status) }, program)
    this.#parts.set(program.name, { status: () => supervised.status(), stop: () => supervised.stop(), stopSignal: 'SIGTERM' })
    this.#save()
    try {
      await supervised.firstReady
      return supervised.status()
    } catch (error) {
      this.#forget(program.name)
      throw error
    }
  }

  attach({ name, pid, startTime, ports = {}, log, stop, stopSignal = 'SIGTERM' }: Part): void {
    const status: ProgramStatus = { name, state: 'ready', pid, startTime, ports, log, restarts: 0, lastExit: undefined }
    this.#parts.set(name, { status: () => status, stop, stopSignal })
    this.#inherited = this.#inherited.filter((one) => one.pid !== pid || one.startTime !== startTime)
    this.#changed(status)
  }

  running(): ProgramStatus[] {
    return [...this.#parts.values()].map((one) => one.status())
  }

  /** Continues if a program does not stop. */
  async stopAll(): Promise<void> {
    const failures: unknown[] = []
    for (const [name, one] of [...this.#parts].toReversed()) {
      await one.stop().then(
        () => this.#forget(name),
        (error: unknown) => failures.push(error),
      )
    }
    if (failures.length > 0) throw new AggregateError(failures, `some programs did not stop: ${failures.map(String).join('; ')}`)
  }

  #forget(name: string): void {
    this.#parts.delete(name)
    this.#save()
  }

  #changed(status: ProgramStatus): void {
    this.#save()
    this.#options.onChange?.(status)
  }

  #save(): void {
    const own = [...this.#parts.values()].map(({ status, stopSignal }) => ({ ...status(), stopSignal })).filter((one) => one.pid !== 0)
    const records = own.map(({ name, pid, startTime, ports, log, stopSignal }) => ({ name, pid, startTime, ports, log, stopSignal }))
    writeSupervisorState(this.#options.dir, [...this.#inherited, ...records])
  }
}

function lockFolder(dir: string): string {
  return join(dir, 'supervisor.lock')
}

function otherSupervisor(holder: LockHolder): OtherSupervisor {
  return { pid: holder.pid, startTime: holder.startTime, address: holder.info['address'] }
}
