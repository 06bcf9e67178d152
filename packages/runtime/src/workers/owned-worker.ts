// One worker thread with limits: runs one job at a time and is terminated by a job that exceeds time or memory.
import { type Transferable, Worker } from 'node:worker_threads'
import { Terminal, toError } from '../errors.ts'
import type { JobMessage, WorkerMessage } from './worker-messages.ts'

export type JobOutcome = { ok: true; output: unknown } | { ok: false; error: Error }
type Bounds = { file: URL; memoryMb: number }

/** Loading the worker's file is not the job's time; a file that never reports is broken. */
const startTimeoutMs = 30_000
/** A job may take this many times its CPU time. */
const waitFactor = 10
const checkMsMin = 20
const cpuAnswerMs = 1_000

export class OwnedWorker {
  readonly #worker: Worker
  readonly #ready = Promise.withResolvers<void>()
  #job = 0
  #settle: ((outcome: JobOutcome) => void) | null = null
  isAlive = true

  constructor(bounds: Bounds) {
    this.#worker = new Worker(bounds.file, {
      env: {}, // workers receive no credentials of the program
      execArgv: [],
      resourceLimits: {
        maxOldGenerationSizeMb: bounds.memoryMb,
        maxYoungGenerationSizeMb: Math.max(1, Math.ceil(bounds.memoryMb / 8)),
        stackSizeMb: 4,
      },
    })
    this.#worker.on('message', (message: WorkerMessage) => this.#hear(message))
    this.#worker.on('error', (thrown: unknown) => this.#die(describeExit(toError(thrown), bounds)))
    this.#worker.on('exit', () => this.#die(new Terminal('the worker ended before its job', { code: 'worker_failed' })))
    this.#worker.unref() // an idle worker does not keep the process running
  }

  /** Never rejects. */
  async run(input: unknown, { transfer, timeoutMs }: { transfer: readonly Transferable[]; timeoutMs: number }): Promise<JobOutcome> {
    const { promise, resolve } = Promise.withResolvers<JobOutcome>()
    this.#settle = resolve
    this.#worker.ref()
    const limit = this.#limit(startTimeoutMs, 'the worker did not start within')
    await this.#ready.promise
    limit.cancel()
    const limiting = this.#limitCpu(timeoutMs, await this.#readCpuMs())
    this.#post(input, transfer)
    const outcome = await promise
    limiting.cancel()
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

  /** Limits the CPU time of the job: on a busy machine a job waits for its turn, which is not its fault. A job that neither works nor ends
   *  is ended after a multiple of its time. */
  #limitCpu(limitMs: number, cpuBeforeMs: number | null): { cancel(): void } {
    const startedAtMs = performance.now()
    let startMs = cpuBeforeMs
    let isOver = false
    const end = () => {
      this.#die(new Terminal(`the job took longer than ${limitMs} ms and was ended`, { code: 'worker_timeout' }))
      void this.#worker.terminate()
    }
    const check = async (): Promise<void> => {
      const cpuMs = await this.#readCpuMs()
      if (isOver) return
      startMs ??= cpuMs
      const leftMs = cpuMs === null || startMs === null ? checkMsMin : limitMs - (cpuMs - startMs)
      if (leftMs <= 0 || performance.now() - startedAtMs >= limitMs * waitFactor) end()
      else timer = setTimeout(() => void check(), Math.max(leftMs, checkMsMin))
    }
    let timer = setTimeout(() => void check(), limitMs)
    return {
      cancel: () => {
        isOver = true
        clearTimeout(timer)
      },
    }
  }

  /** CPU time of the worker so far; null if it does not answer, because it ended or is inside native code. */
  async #readCpuMs(): Promise<number | null> {
    const { promise, resolve } = Promise.withResolvers<null>()
    const timer = setTimeout(() => resolve(null), cpuAnswerMs)
    const usage = await Promise.race([this.#worker.cpuUsage().catch(() => null), promise])
    clearTimeout(timer)
    return usage === null ? null : (usage.user + usage.system) / 1000
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
    this.#finish(
      message.is === 'done' ? { ok: true, output: message.output } : { ok: false, error: toFailedOutcome(message.message, message.code) },
    )
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

function toFailedOutcome(message: string, code: string | undefined): Terminal {
  return new Terminal(message, code === undefined ? {} : { code })
}

function describeExit(error: Error & { code?: unknown }, bounds: Bounds): Terminal {
  if (error.code !== 'ERR_WORKER_OUT_OF_MEMORY') return new Terminal('the worker failed', { code: 'worker_failed', cause: error })
  return new Terminal(`the job needed more than ${bounds.memoryMb} MiB of memory and was ended`, { code: 'worker_memory' })
}
