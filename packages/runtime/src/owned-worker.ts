// One worker thread with its bounds: does one job at a time, and dies of a job that takes too long or too much memory.
import { type Transferable, Worker } from 'node:worker_threads'
import { Terminal, toError } from './errors.ts'
import type { JobMessage, WorkerMessage } from './worker-messages.ts'

export type JobOutcome = { ok: true; output: unknown } | { ok: false; error: Error }
type Bounds = { file: URL; timeoutMs: number; memoryMb: number }

/** Loading the worker's file is not the job's time; a file that never reports is broken. */
const startTimeoutMs = 30_000

export class OwnedWorker {
  readonly #bounds: Bounds
  readonly #worker: Worker
  readonly #ready = Promise.withResolvers<void>()
  #job = 0
  #settle: ((outcome: JobOutcome) => void) | null = null
  isAlive = true

  constructor(bounds: Bounds) {
    this.#bounds = bounds
    this.#worker = new Worker(bounds.file, {
      env: {}, // no credential of the program reaches a worker
      execArgv: [],
      resourceLimits: {
        maxOldGenerationSizeMb: bounds.memoryMb,
        maxYoungGenerationSizeMb: Math.max(1, Math.ceil(bounds.memoryMb / 8)),
        stackSizeMb: 4,
      },
    })
    this.#worker.on('message', (message: WorkerMessage) => this.#hear(message))
    this.#worker.on('error', (thrown: unknown) => this.#die(causeOfDeath(toError(thrown), bounds)))
    this.#worker.on('exit', () => this.#die(new Terminal('the worker ended before its job', { code: 'worker_failed' })))
    this.#worker.unref() // an idle worker does not keep the program alive
  }

  /** Never rejects. */
  async run(input: unknown, transfer: readonly Transferable[]): Promise<JobOutcome> {
    const { promise, resolve } = Promise.withResolvers<JobOutcome>()
    this.#settle = resolve
    this.#worker.ref()
    const limit = this.#limit(startTimeoutMs, 'the worker did not start within')
    await this.#ready.promise
    limit.cancel()
    const timer = this.#limit(this.#bounds.timeoutMs, 'the job took longer than')
    this.#post(input, transfer)
    const outcome = await promise
    timer.cancel()
    this.#worker.unref()
    return outcome
  }

  async end(): Promise<void> {
    this.#die(new Terminal('the worker was ended', { code: 'worker_ended' }))
    await this.#worker.terminate()
  }

  #limit(ms: number, what: string): { cancel(): void } {
    const timer = setTimeout(() => {
      this.#die(new Terminal(`${what} ${ms} ms and was ended`, { code: 'worker_timeout' }))
      void this.#worker.terminate()
    }, ms)
    return { cancel: () => clearTimeout(timer) }
  }

  #post(input: unknown, transfer: readonly Transferable[]): void {
    this.#job += 1
    try {
      if (this.isAlive) this.#worker.postMessage({ job: this.#job, input } satisfies JobMessage, [...transfer])
    } catch (thrown) {
      this.#finish({ ok: false, error: new Terminal('the job cannot be handed to a worker', { code: 'worker_input', cause: thrown }) })
    }
  }

  #hear(message: WorkerMessage): void {
    if (message.is === 'ready') return this.#ready.resolve()
    if (message.job !== this.#job) return
    this.#finish(message.is === 'done' ? { ok: true, output: message.output } : { ok: false, error: failed(message.message, message.code) })
  }

  #die(error: Error): void {
    this.isAlive = false
    this.#ready.resolve()
    this.#finish({ ok: false, error })
  }

  #finish(outcome: JobOutcome): void {
    this.#settle?.(outcome)
    this.#settle = null
  }
}

function failed(message: string, code: string | undefined): Terminal {
  return new Terminal(message, code === undefined ? {} : { code })
}

function causeOfDeath(error: Error & { code?: unknown }, bounds: Bounds): Terminal {
  if (error.code !== 'ERR_WORKER_OUT_OF_MEMORY') return new Terminal('the worker failed', { code: 'worker_failed', cause: error })
  return new Terminal(`the job needed more than ${bounds.memoryMb} MiB of memory and was ended`, { code: 'worker_memory' })
}
