// Stops a program: what was opened is closed in reverse order, each closing within what is left of the grace, and one that
// fails or hangs does not keep the others from closing. `main` registers a closing beside each opening.
import { type Clock, systemClock } from './clock.ts'
import { Terminal, toError } from './errors.ts'
import type { Log } from './log.ts'

export interface Lifecycle {
  /** Aborted as soon as the program begins to stop. */
  readonly signal: AbortSignal
  onClose(name: string, close: Close): void
  /** Closes everything once; further calls wait for the same end. Never rejects. */
  close(reason: string): Promise<void>
  /** SIGTERM, SIGINT: close, then exit 0, or 1 if a closing failed or hung. Second signal: exit 1 at once. A bug nobody caught: log, close, exit 1. */
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
  return new OpenThings({ log: deps.log, clock: deps.clock ?? systemClock, process: deps.process ?? process }, options.graceMs)
}

type Opened = { name: string; close: Close }

class OpenThings implements Lifecycle {
  readonly #deps: Required<LifecycleDeps>
  readonly #graceMs: number
  readonly #stopping = new AbortController()
  readonly #end = Promise.withResolvers<void>()
  readonly #opened: Opened[] = []
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
    // Opened while everything else was closing: nobody will come back for it.
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
    for (let opened = this.#opened.pop(); opened; opened = this.#opened.pop()) {
      const leftMs = deadlineMs - this.#deps.clock.monotonicMs()
      await this.#closeOne(opened, this.#opened.length === 0 ? leftMs : leftMs - reserveMs(this.#graceMs))
    }
    this.#isClosed = true
    this.#deps.log.info('stopped', { exit_code: this.#exitCode })
  }

  async #closeOne(opened: Opened, limitMs: number): Promise<void> {
    const startedMs = this.#deps.clock.monotonicMs()
    const outcome = await withinMs(this.#deps.clock, opened.close, limitMs)
    const fields = { part: opened.name, ms: Math.round(this.#deps.clock.monotonicMs() - startedMs) }
    if (outcome === 'done') return this.#deps.log.info('closed', fields)
    this.#exitCode = 1
    if (outcome === 'hung') this.#deps.log.error('did not close in time', fields)
    else this.#deps.log.error('closing failed', { ...fields, error: outcome })
  }
}

/** Kept back from each closing for those after it, so that one that hangs does not take all the time. */
function reserveMs(graceMs: number): number {
  return Math.min(1_000, graceMs / 10)
}

/** After the deadline a closing is still begun: flushing half a buffer is better than none. */
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
