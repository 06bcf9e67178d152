// Repeats a piece of work by timer and by wake(): the same run for the fast signal and the slow scan. One run at a time; a
// run that throws is logged, counted and tried again at the next tick.
import { addJitter } from './backoff.ts'
import type { Clock } from './clock.ts'
import { toError } from './errors.ts'
import type { Log } from './logging/log.ts'
import type { Metrics } from './metrics/metrics.ts'

export type Loop = {
  name: string
  /** From the start of a run to the start of the next; a function is called before each wait. Infinity: only wake() starts a run. */
  everyMs: number | (() => number)
  /** Has no input: it reads the current state. The signal is aborted when the loop stops. Counts are logged. */
  run(signal: AbortSignal): Promise<Record<string, number> | void>
}

export interface RunningLoop {
  readonly name: string
  /** Runs now; during a run: once more directly after it, however often it was called. */
  wake(): void
  /** Reads `everyMs` again: a setting has changed, or there is something to do for a loop that had nothing. */
  retime(): void
  /** Aborts the signal of the run and resolves when the run has ended. No run starts afterwards. */
  stop(): Promise<void>
}

export type LoopDeps = { clock: Clock; log: Log; metrics?: Metrics }
/** `jitter` 0.1: each wait is up to a tenth shorter or longer. `immediately`: the first run does not wait for a tick. */
export type LoopOptions = { jitter?: number; immediately?: boolean }

export function startLoop(deps: LoopDeps, loop: Loop, options: LoopOptions = {}): RunningLoop {
  const running = new LoopState(deps, loop, options.jitter ?? 0.1)
  if (options.immediately) running.wake()
  else running.retime()
  return running
}

/** States: waiting (a timer), running (a promise), running and woken, stopped. */
class LoopState implements RunningLoop {
  readonly name: string
  readonly #deps: LoopDeps
  readonly #loop: Loop
  readonly #jitter: number
  readonly #stopping = new AbortController()
  #timer: { cancel(): void } | null = null
  #running: Promise<void> | null = null
  #isWoken = false
  #lastStartMs: number
  #everyMs: number
  /** Drawn once per wait, so that repeated reads do not postpone the run. */
  #spread: number

  constructor(deps: LoopDeps, loop: Loop, jitter: number) {
    this.name = loop.name
    this.#deps = deps
    this.#loop = loop
    this.#jitter = jitter
    this.#everyMs = readIntervalMs(loop)
    this.#spread = addJitter(1, jitter)
    this.#lastStartMs = deps.clock.monotonicMs()
  }

  wake(): void {
    if (this.#stopping.signal.aborted) return
    if (this.#running) this.#isWoken = true
    else this.#begin()
  }

  retime(): void {
    if (this.#running || this.#stopping.signal.aborted) return
    this.#timer?.cancel()
    this.#everyMs = this.#readInterval()
    const waitMs = nextTickMs(this.#everyMs * this.#spread, this.#deps.clock.monotonicMs() - this.#lastStartMs)
    this.#timer = waitMs === Infinity ? null : this.#deps.clock.setTimer(waitMs, () => this.wake())
  }

  async stop(): Promise<void> {
    this.#stopping.abort(new Error(`task ${this.name} is stopped`))
    this.#timer?.cancel()
    await this.#running
  }

  #begin(): void {
    this.#timer?.cancel()
    this.#isWoken = false
    this.#spread = addJitter(1, this.#jitter)
    this.#lastStartMs = this.#deps.clock.monotonicMs()
    this.#running = runOnce(this.#deps, this.#loop, this.#stopping.signal).finally(() => this.#afterRun())
  }

  /** A setting that cannot be read must not end the loop: the last interval stays. */
  #readInterval(): number {
    try {
      return readIntervalMs(this.#loop)
    } catch (thrown) {
      this.#deps.log.error('task interval unreadable', { task: this.name, kept_ms: this.#everyMs, error: toError(thrown) })
      return this.#everyMs
    }
  }

  #afterRun(): void {
    this.#running = null
    if (this.#isWoken) this.wake()
    else this.retime()
  }
}

function readIntervalMs(loop: Loop): number {
  const everyMs = typeof loop.everyMs === 'function' ? loop.everyMs() : loop.everyMs
  if (Number.isNaN(everyMs)) throw new RangeError(`task ${loop.name}: the interval is ${everyMs}, not a number of milliseconds`)
  return Math.max(1, everyMs)
}

/** Ticks are `everyMs` apart; ticks missed during a long run are skipped. */
export function nextTickMs(everyMs: number, elapsedMs: number): number {
  return everyMs === Infinity ? Infinity : everyMs - (elapsedMs % everyMs)
}

/** Never rejects. */
async function runOnce(deps: LoopDeps, loop: Loop, signal: AbortSignal): Promise<void> {
  const startedMs = deps.clock.monotonicMs()
  const { result, counts, error } = await toOutcome(loop, signal)
  const ms = Math.round(deps.clock.monotonicMs() - startedMs)
  if (error) deps.log.error('task failed', { task: loop.name, ms, error })
  else deps.log.debug('task ran', { task: loop.name, ms, result, ...counts })
  count(deps.metrics, loop.name, result, ms / 1_000)
}

type Outcome = { result: 'ok' | 'failed' | 'stopped'; counts?: Record<string, number>; error?: Error }

async function toOutcome(loop: Loop, signal: AbortSignal): Promise<Outcome> {
  try {
    return { result: 'ok', counts: (await loop.run(signal)) ?? {} }
  } catch (thrown) {
    return signal.aborted ? { result: 'stopped' } : { result: 'failed', error: toError(thrown) }
  }
}

function count(metrics: Metrics | undefined, task: string, result: Outcome['result'], seconds: number): void {
  metrics?.counter('brokkr_task_runs_total', 'Runs of a background task by result', ['task', 'result']).inc({ task, result })
  metrics?.histogram('brokkr_task_duration_seconds', 'Duration of the runs of a background task', ['task']).observe({ task }, seconds)
}
