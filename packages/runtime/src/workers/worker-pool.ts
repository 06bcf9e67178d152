// Owns all worker threads: processes hostile or expensive input outside the event loop, with limits on queue, time and memory. A
// job that exceeds a limit terminates only its own worker, which is replaced.
import type { Transferable } from 'node:worker_threads'
import { Retryable, Terminal } from '../errors.ts'
import { OwnedWorker } from './owned-worker.ts'

export type WorkerPoolOptions = {
  /** A file that calls serveJobs of worker-messages.ts. */
  file: URL
  workers?: number
  waitingMax?: number
  /** From the start of the job in a worker; queue time does not count. */
  timeoutMs: number
  /** JavaScript heap; buffers and WebAssembly memory are bounded by the worker's own code. */
  memoryMb: number
}
export type JobOptions = {
  transfer?: readonly Transferable[]
  signal?: AbortSignal
  /** In the place of the pool's. */
  timeoutMs?: number
}

export interface WorkerPool<In, Out> {
  /**
   * Throws Retryable `overloaded` when too many wait, Terminal `worker_timeout` or `worker_memory` at a bound, Terminal with the
   * worker's own message and code when the job fails, the signal's reason when it is aborted.
   */
  run(input: In, options?: JobOptions): Promise<Out>
  readonly waiting: number
  /** Terminates every worker; running and queued jobs fail with `closed`. */
  close(): Promise<void>
}

export function createWorkerPool<In, Out>(options: WorkerPoolOptions): WorkerPool<In, Out> {
  return new Pool<In, Out>({ workers: 2, waitingMax: 64, ...options })
}

type Job = {
  input: unknown
  transfer: readonly Transferable[]
  timeoutMs: number
  settle: (output: unknown) => void
  fail: (error: unknown) => void
  stopListening: () => void
}

class Pool<In, Out> implements WorkerPool<In, Out> {
  readonly #options: Required<WorkerPoolOptions>
  readonly #queue: Job[] = []
  readonly #idle: OwnedWorker[] = []
  readonly #busy = new Map<OwnedWorker, Job>()
  #isClosed = false

  constructor(options: Required<WorkerPoolOptions>) {
    this.#options = options
  }

  get waiting(): number {
    return this.#queue.length
  }

  run(input: In, { transfer = [], signal, timeoutMs = this.#options.timeoutMs }: JobOptions = {}): Promise<Out> {
    if (signal?.aborted) return Promise.reject(signal.reason as Error)
    if (this.#isClosed) return Promise.reject(closedError())
    if (this.#free() === 0 && this.#queue.length >= this.#options.waitingMax) return Promise.reject(overloaded(this.#options.waitingMax))
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    const abort = () => this.#abort(job, signal?.reason)
    const stopListening = () => signal?.removeEventListener('abort', abort)
    const job: Job = { input, transfer, timeoutMs, settle: resolve, fail: reject, stopListening }
    signal?.addEventListener('abort', abort, { once: true })
    this.#queue.push(job)
    this.#dispatch()
    return promise.finally(job.stopListening) as Promise<Out>
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const workers = [...this.#idle.splice(0), ...this.#busy.keys()]
    for (const job of [...this.#queue.splice(0), ...this.#busy.values()]) job.fail(closedError())
    this.#busy.clear()
    await Promise.all(workers.map((worker) => worker.end()))
  }

  #free(): number {
    return this.#options.workers - this.#busy.size
  }

  /** Workers start on demand and stay. */
  #dispatch(): void {
    while (this.#free() > 0) {
      const job = this.#queue.shift()
      if (!job) return
      const worker = this.#idle.pop() ?? new OwnedWorker(this.#options)
      this.#busy.set(worker, job)
      void this.#work(worker, job)
    }
  }

  async #work(worker: OwnedWorker, job: Job): Promise<void> {
    const outcome = await worker.run(job.input, job)
    const isOurs = this.#busy.delete(worker)
    if (outcome.ok) job.settle(outcome.output)
    else job.fail(outcome.error)
    if (worker.isAlive && isOurs && !this.#isClosed) this.#idle.push(worker)
    this.#dispatch()
  }

  /** A thread cannot be interrupted politely: a running job's worker is ended. */
  #abort(job: Job, reason: unknown): void {
    const waiting = this.#queue.indexOf(job)
    if (waiting >= 0) this.#queue.splice(waiting, 1)
    job.fail(reason)
    for (const [worker, running] of this.#busy) if (running === job) void worker.end()
  }
}

function overloaded(waitingMax: number): Retryable {
  return new Retryable(`${waitingMax} jobs wait for a worker already: try again in a moment`, { code: 'overloaded' })
}

function closedError(): Terminal {
  return new Terminal('the worker pool is closed', { code: 'closed' })
}
