// Starts the programs of `brokkr up`, keeps them running, and stops them in reverse order. One supervisor per folder; what it starts
// is recorded there, so that the next one can stop what a killed one left.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Log } from '@brokkr/runtime/log.ts'
import { type LockHolder, lockHolder, tryLock } from './lock-file.ts'
import { type Program, type ProgramStatus, type RestartPolicy, superviseProgram } from './supervised-program.ts'
import { type RecordedProgram, readState, stopRecorded, writeState } from './supervisor-state.ts'

export type OtherSupervisor = { pid: number; startTime: string; address: string | undefined }

/** A part that another module started and keeps (PostgreSQL, the control plane): recorded here, stopped here in its turn. */
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
  /** What a second supervisor on this folder is told. */
  announce(address: string): void
  /** Stops what an earlier, killed supervisor left running, in reverse order, but for the names in `keep`; says what it stopped. */
  sweep(options?: { keep?: readonly string[] }): Promise<string[]>
  /** Returns when the program is ready; throws with the end of its log when it does not get there. */
  start(program: Program): Promise<ProgramStatus>
  /** The same name again replaces the record: the part was restarted and has another pid. */
  attach(part: Part): void
  running(): ProgramStatus[]
  stopAll(): Promise<void>
  /** Stops everything and lets another supervisor in. */
  close(): Promise<void>
}

export type SupervisorOptions = { dir: string; log: Log; restart?: RestartPolicy; onChange?: (status: ProgramStatus) => void }

const usualRestart: RestartPolicy = { baseMs: 500, maxMs: 30_000, tries: 5, stableMs: 60_000 }

export function createSupervisor(options: SupervisorOptions): { supervisor: Supervisor } | { alreadyRunning: OtherSupervisor } {
  mkdirSync(options.dir, { recursive: true })
  const outcome = tryLock(lockFolder(options.dir))
  if ('heldBy' in outcome) return { alreadyRunning: other(outcome.heldBy) }
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

/** The supervisor that works in this folder now, for `down` and `status`. */
export function findSupervisor(dir: string): OtherSupervisor | undefined {
  const holder = lockHolder(lockFolder(dir))
  return holder === undefined ? undefined : other(holder)
}

type Kept = { status: () => ProgramStatus; stop: () => Promise<void>; stopSignal: NodeJS.Signals }

class Supervision {
  readonly #options: SupervisorOptions
  /** By name, in the order of their first start. */
  readonly #kept = new Map<string, Kept>()
  /** Of an earlier supervisor; stays in the state file until it is swept. */
  #inherited: RecordedProgram[]

  constructor(options: SupervisorOptions) {
    this.#options = options
    this.#inherited = readState(options.dir)
  }

  async sweep(keep: ReadonlySet<string>): Promise<string[]> {
    const stopped: string[] = []
    for (const program of this.#inherited.toReversed()) {
      if (keep.has(program.name)) continue
      if (await stopRecorded(program)) stopped.push(program.name)
      this.#inherited = this.#inherited.filter((one) => one !== program)
      this.#save()
    }
    if (stopped.length > 0) this.#options.log.info('stopped leftovers', { programs: stopped.join(', ') })
    return stopped
  }

  async start(program: Program): Promise<ProgramStatus> {
    if (!/^[a-z0-9][a-z0-9-]*$/.test(program.name)) throw new Error(`'${program.name}' cannot name a program and its log file`)
    if (this.#kept.has(program.name)) throw new Error(`a program named ${program.name} is already under supervision`)
    const { dir, log, restart: policy = usualRestart } = this.#options
    const supervised = superviseProgram({ dir, log, policy, onChange: (status) => this.#changed(status) }, program)
    this.#kept.set(program.name, { status: () => supervised.status(), stop: () => supervised.stop(), stopSignal: 'SIGTERM' })
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
    this.#kept.set(name, { status: () => status, stop, stopSignal })
    this.#inherited = this.#inherited.filter((one) => one.pid !== pid || one.startTime !== startTime)
    this.#changed(status)
  }

  running(): ProgramStatus[] {
    return [...this.#kept.values()].map((one) => one.status())
  }

  /** One that will not stop does not keep the others from being stopped. */
  async stopAll(): Promise<void> {
    const failures: unknown[] = []
    for (const [name, one] of [...this.#kept].toReversed()) {
      await one.stop().then(
        () => this.#forget(name),
        (error: unknown) => failures.push(error),
      )
    }
    if (failures.length > 0) throw new AggregateError(failures, `some programs did not stop: ${failures.map(String).join('; ')}`)
  }

  #forget(name: string): void {
    this.#kept.delete(name)
    this.#save()
  }

  #changed(status: ProgramStatus): void {
    this.#save()
    this.#options.onChange?.(status)
  }

  #save(): void {
    const own = [...this.#kept.values()].map(({ status, stopSignal }) => ({ ...status(), stopSignal })).filter((one) => one.pid !== 0)
    const records = own.map(({ name, pid, startTime, ports, log, stopSignal }) => ({ name, pid, startTime, ports, log, stopSignal }))
    writeState(this.#options.dir, [...this.#inherited, ...records])
  }
}

function lockFolder(dir: string): string {
  return join(dir, 'supervisor.lock')
}

function other(holder: LockHolder): OtherSupervisor {
  return { pid: holder.pid, startTime: holder.startTime, address: holder.info['address'] }
}
