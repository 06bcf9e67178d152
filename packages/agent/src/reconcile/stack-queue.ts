// Chooses the stack to reconcile next. One worker per stack at a time, a bounded number of stacks in parallel, and the latest desired
// action wins: a newer one aborts the running attempt between two requests. A removal waits for the applies that were queued before
// it, so that an object that moves from one stack to another is taken over before it can be deleted.
import { WorkQueue } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'

/** Abort reason of an attempt whose desired action was replaced. */
export class Superseded extends Error {
  override readonly name = 'Superseded'
}
export class AttemptTimeout extends Error {
  override readonly name = 'AttemptTimeout'
}
/** Functions, because the settings can change while the agent runs. */
export interface StackQueueOptions {
  readonly concurrency: () => number
  readonly attemptMs: () => number
  readonly retryMaxMs: () => number
  /** Pause before the first retry of a stack. Default 1 s. */
  readonly retryBaseMs?: number
}
/** done: wait for the next change. retry: run again after a backoff; `onScheduled` receives the chosen pause. */
export type AttemptResult =
  | { readonly next: 'done' }
  | { readonly next: 'retry'; readonly afterMs: number | undefined; readonly onScheduled: (pauseMs: number) => void }

type Reconcile = (stackId: string, signal: AbortSignal) => Promise<AttemptResult>

export class StackQueue {
  readonly #clock: Clock
  readonly #log: Log
  readonly #options: StackQueueOptions
  readonly #queue: WorkQueue
  readonly #running = new Map<string, AbortController>()
  readonly #stopping = new AbortController()
  /** Stacks whose latest action is an apply that was not attempted yet. */
  readonly #pendingApplies = new Set<string>()
  /** Removal → the applies that it waits for. */
  readonly #blockedRemovals = new Map<string, Set<string>>()
  readonly #workers = new Set<Promise<void>>()
  #workerCount = 0
  #reconcile: Reconcile = () => Promise.resolve({ next: 'done' })

  constructor(deps: { clock: Clock; log: Log }, options: StackQueueOptions) {
    this.#clock = deps.clock
    this.#log = deps.log
    this.#options = options
    this.#queue = new WorkQueue(deps, {
      baseMs: options.retryBaseMs ?? 1_000,
      get maxMs() {
        return options.retryMaxMs()
      },
      jitter: 'fifth',
    })
  }

  start(reconcile: Reconcile): void {
    this.#reconcile = reconcile
    this.resize()
  }

  /** Starts the workers that the settings ask for; a surplus worker ends after its current attempt. */
  resize(): void {
    for (; this.#workerCount < this.#options.concurrency() && !this.#stopping.signal.aborted; this.#workerCount++) {
      const worker = this.#work().finally(() => this.#workers.delete(worker))
      this.#workers.add(worker)
    }
  }

  /** The desired action changed: aborts a running attempt and resets the backoff. */
  enqueueChange(stackId: string, action: 'apply' | 'remove'): void {
    this.#running.get(stackId)?.abort(new Superseded(`a newer desired state of stack ${stackId} arrived`))
    this.#queue.forget(stackId)
    this.#blockedRemovals.delete(stackId)
    if (action === 'apply') this.#pendingApplies.add(stackId)
    else this.#blockRemoval(stackId)
    if (!this.#blockedRemovals.has(stackId)) this.#queue.add(stackId)
  }

  /** Queues another attempt, at once or after a delay; a running attempt continues. */
  enqueue(stackId: string, afterMs = 0): void {
    if (this.#blockedRemovals.has(stackId)) return
    if (afterMs > 0) this.#queue.addAfter(stackId, afterMs)
    else this.#queue.add(stackId)
  }

  /** Aborts all running attempts between two requests. */
  interrupt(reason: Error): void {
    for (const attempt of this.#running.values()) attempt.abort(reason)
  }

  /** Retries at once and resets the backoff, because the cause of the failure may be gone. */
  retryNow(stackId: string): void {
    this.#queue.forget(stackId)
    this.enqueue(stackId)
  }

  get depth(): number {
    return this.#queue.waiting + this.#queue.active
  }

  /** Running attempts end between two requests. */
  async stop(): Promise<void> {
    this.#queue.close()
    this.#stopping.abort(new Error('the agent is stopping'))
    await Promise.all(this.#workers)
  }

  #blockRemoval(stackId: string): void {
    this.#completeApply(stackId)
    if (this.#pendingApplies.size > 0) this.#blockedRemovals.set(stackId, new Set(this.#pendingApplies))
  }

  /** The stack's apply was attempted or replaced: removals that waited only for it are queued. */
  #completeApply(stackId: string): void {
    if (!this.#pendingApplies.delete(stackId)) return
    for (const [removal, applies] of this.#blockedRemovals) {
      applies.delete(stackId)
      if (applies.size > 0) continue
      this.#blockedRemovals.delete(removal)
      this.#queue.add(removal)
    }
  }

  async #work(): Promise<void> {
    for (let stackId = await this.#queue.take(); stackId !== undefined; stackId = await this.#queue.take()) {
      const attempt = this.#beginAttempt(stackId)
      const signal = AbortSignal.any([attempt.controller.signal, this.#stopping.signal])
      const result = await this.#reconcile(stackId, signal).catch((error: unknown) => this.#retryAfterBug(stackId, error))
      this.#endAttempt(stackId, attempt)
      if (result.next === 'retry') result.onScheduled(this.#queue.retry(stackId, result.afterMs))
      else this.#queue.forget(stackId)
      this.#queue.done(stackId)
      if (this.#workerCount > this.#options.concurrency()) break
    }
    this.#workerCount--
  }

  #beginAttempt(stackId: string): Attempt {
    const controller = new AbortController()
    const attemptMs = this.#options.attemptMs()
    const timeout = () => controller.abort(new AttemptTimeout(`the attempt took longer than ${attemptMs / 1000} s`))
    this.#running.set(stackId, controller)
    return { controller, timer: this.#clock.setTimer(attemptMs, timeout) }
  }

  #endAttempt(stackId: string, { controller, timer }: Attempt): void {
    timer.cancel()
    this.#running.delete(stackId)
    // A superseded attempt does not count as attempted: the newer one completes the apply.
    if (!(controller.signal.reason instanceof Superseded)) this.#completeApply(stackId)
  }

  /** A bug in one attempt must stop neither the worker nor the stack. */
  #retryAfterBug(stackId: string, error: unknown): AttemptResult {
    this.#log.error('reconcile failed unexpectedly', { stack_id: stackId, error: toError(error) })
    return { next: 'retry', afterMs: undefined, onScheduled: () => undefined }
  }
}

interface Attempt {
  readonly controller: AbortController
  readonly timer: { cancel(): void }
}
