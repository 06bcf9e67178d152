// Stops a program: closes resources in reverse order within the grace period. A close that fails or hangs does not prevent the
// others. `main` registers a close for each resource it opens.
import { type Clock, systemClock } from './clock.ts'
import { Terminal, toError } from './errors.ts'
import type { Log } from './logging/log.ts'

export interface Lifecycle {
  /** Aborted when the program starts to stop. */
  readonly signal: AbortSignal
  onClose(name: string, close: Close): void
  /** Closes everything once; further calls wait for the same end. Never rejects. */
  close(reason: string): Promise<void>
  /** SIGTERM, SIGINT: close, then exit with 0, or 1 if a close failed or hung. Second signal: exit with 1 immediately. Uncaught
   *  error: log, close, exit with 1. */
  listenForSignals(): void
  readonly closed: Promise<void>
}

type Close = () => Promise<void> | void
/** The part of Node's process that ends a program. */
export type Exits = {
  on(event: NodeJS.Signals | 'uncaughtException', listener: (subject: unknown) => void): unknown
  exit(code: number): unknown
}
export type LifecycleDeps = { log: Log; clock?: Clock; process?: Exits }

export function createLifecycle(deps: LifecycleDeps, options: { graceMs: number }): Lifecycle {
  return new ProgramLifecycle({ log: deps.log, clock: deps.clock ?? systemClock, process: deps.process ?? process }, options.graceMs)
}

type CloseEntry = { name: string; close: Close }

class ProgramLifecycle implements Lifecycle {
  readonly #deps: Required<LifecycleDeps>
  readonly #graceMs: number
  readonly #stopping = new AbortController()
  readonly #end = Promise.withResolvers<void>()
  readonly #opened: CloseEntry[] = []
  #exitCode = 0
  #isClosed = false

  constructor(deps: Required<LifecycleDeps>, graceMs: number) {
    this.#deps = deps
    this.#graceMs = graceMs
  }

  get signal(): AbortSignal {
    return this.#stopping.signal
  }

  get closed(): Promise<void> {
    return this.#end.promise
  }

  onClose(name: string, close: Close): void {
    // Opened during shutdown: closed immediately.
    if (this.#isClosed) void this.#closeOne({ name, close }, this.#graceMs)
    else this.#opened.push({ name, close })
  }

  close(reason: string): Promise<void> {
    if (!this.signal.aborted) {
      this.#deps.log.info('stopping', { reason, grace_ms: this.#graceMs })
      this.#stopping.abort(new Terminal(`the program stops: ${reason}`, { code: 'stopping' }))
      void this.#closeAll().finally(() => this.#end.resolve())
    }
    return this.closed
  }

  listenForSignals(): void {
    for (const name of ['SIGTERM', 'SIGINT'] as const) this.#deps.process.on(name, () => this.#leave(name))
    this.#deps.process.on('uncaughtException', (thrown) => {
      this.#deps.log.error('uncaught error', { error: toError(thrown) })
      this.#exitCode = 1
      this.#leave('uncaught error')
    })
  }

  #leave(reason: string): void {
    if (this.signal.aborted) {
      this.#deps.log.warn('stopped at once', { reason })
      this.#deps.process.exit(1)
    } else void this.close(reason).then(() => this.#deps.process.exit(this.#exitCode))
  }

  async #closeAll(): Promise<void> {
    const deadlineMs = this.#deps.clock.monotonicMs() + this.#graceMs
    for (let resource = this.#opened.pop(); resource; resource = this.#opened.pop()) {
      const leftMs = deadlineMs - this.#deps.clock.monotonicMs()
      await this.#closeOne(resource, this.#opened.length === 0 ? leftMs : leftMs - reserveMs(this.#graceMs))
    }
    this.#isClosed = true
    this.#deps.log.info('stopped', { exit_code: this.#exitCode })
  }

  async #closeOne(opened: CloseEntry, limitMs: number): Promise<void> {
    const startedMs = this.#deps.clock.monotonicMs()
    const outcome = await withinMs(this.#deps.clock, opened.close, limitMs)
    const fields = { part: opened.name, ms: Math.round(this.#deps.clock.monotonicMs() - startedMs) }
    if (outcome === 'done') return this.#deps.log.info('closed', fields)
    this.#exitCode = 1
    if (outcome === 'hung') this.#deps.log.error('did not close in time', fields)
    else this.#deps.log.error('closing failed', { ...fields, error: outcome })
  }
}

/** Reserved for the later closes, so that one that hangs does not use all the time. */
function reserveMs(graceMs: number): number {
  return Math.min(1_000, graceMs / 10)
}

/** Starts a close even after the deadline: flushing part of a buffer is better than nothing. */
async function withinMs(clock: Clock, close: Close, limitMs: number): Promise<'done' | 'hung' | Error> {
  const limit = Promise.withResolvers<'hung'>()
  const timer = clock.setTimer(Math.max(0, limitMs), () => limit.resolve('hung'))
  try {
    return await Promise.race([attempt(close), limit.promise])
  } finally {
    timer.cancel()
  }
}

async function attempt(close: Close): Promise<'done' | Error> {
  try {
    await close()
    return 'done'
  } catch (thrown) {
    return toError(thrown)
  }
}
