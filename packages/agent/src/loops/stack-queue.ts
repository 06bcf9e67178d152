// Which stack is worked on next: each by one worker at a time, a few in parallel, the newest level winning. Something newer ends
// an attempt between two requests; removals wait until the applies that came before them have had their turn, so that what moves
// from one stack to another is taken over before it could be deleted.
import { WorkQueue } from '@brokkr/kube/queue.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'

/** Ends an attempt because its level is no longer the newest. */
export class Superseded extends Error {
  override readonly name = 'Superseded'
}
export class AttemptTimeout extends Error {
  override readonly name = 'AttemptTimeout'
}
/** Read each time they matter: settings may change. */
export interface StackQueueOptions {
  readonly concurrency: () => number
  readonly attemptMs: () => number
  readonly retryMaxMs: () => number
  /** Before the first retry of a stack. Default 1 s. */
  readonly retryBaseMs?: number
}
/** done: look again when told to · retry: by yourself, after a growing pause, which is given back to `told`. */
export type Turn =
  | { readonly next: 'done' }
  | { readonly next: 'retry'; readonly afterMs: number | undefined; readonly told: (pauseMs: number) => void }

export class StackQueue {
  readonly #clock: Clock
  readonly #log: Log
  readonly #options: StackQueueOptions
  readonly #queue: WorkQueue
  readonly #running = new Map<string, AbortController>()
  readonly #stopping = new AbortController()
  /** Stacks whose newest level asks for an apply that has not been tried yet. */
  readonly #untried = new Set<string>()
  /** Removal → the applies it waits for. */
  readonly #behind = new Map<string, Set<string>>()
  readonly #workers = new Set<Promise<void>>()
  #workerCount = 0
  #turn: (stackId: string, signal: AbortSignal) => Promise<Turn> = () => Promise.resolve({ next: 'done' })

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

  start(turn: (stackId: string, signal: AbortSignal) => Promise<Turn>): void {
    this.#turn = turn
    this.resize()
  }

  /** As many workers as the settings ask for now; one too many ends with its turn. */
  resize(): void {
    for (; this.#workerCount < this.#options.concurrency() && !this.#stopping.signal.aborted; this.#workerCount++) {
      const worker = this.#work().finally(() => this.#workers.delete(worker))
      this.#workers.add(worker)
    }
  }

  /** The level changed: what runs on the older one ends. */
  newLevel(stackId: string, wants: 'apply' | 'remove'): void {
    this.#running.get(stackId)?.abort(new Superseded(`something newer came for stack ${stackId}`))
    this.#queue.forget(stackId)
    this.#behind.delete(stackId)
    if (wants === 'apply') this.#untried.add(stackId)
    else this.#putBehind(stackId)
    if (!this.#behind.has(stackId)) this.#queue.add(stackId)
  }

  /** Look again, at once or after so long; an attempt under way is not disturbed. */
  again(stackId: string, afterMs = 0): void {
    if (this.#behind.has(stackId)) return
    if (afterMs > 0) this.#queue.addAfter(stackId, afterMs)
    else this.#queue.add(stackId)
  }

  /** Ends what runs between two requests: it may not go on now, whatever its level says. */
  interrupt(reason: Error): void {
    for (const attempt of this.#running.values()) attempt.abort(reason)
  }

  /** What made it fail may be over: try at once, with short pauses again. */
  retryNow(stackId: string): void {
    this.#queue.forget(stackId)
    this.again(stackId)
  }

  get depth(): number {
    return this.#queue.waiting + this.#queue.active
  }

  /** Attempts under way end between two requests. */
  async stop(): Promise<void> {
    this.#queue.close()
    this.#stopping.abort(new Error('the agent stops'))
    await Promise.all(this.#workers)
  }

  #putBehind(stackId: string): void {
    this.#settled(stackId)
    if (this.#untried.size > 0) this.#behind.set(stackId, new Set(this.#untried))
  }

  /** The stack's apply had its turn, or is no longer wanted. */
  #settled(stackId: string): void {
    if (!this.#untried.delete(stackId)) return
    for (const [removal, applies] of this.#behind) {
      applies.delete(stackId)
      if (applies.size > 0) continue
      this.#behind.delete(removal)
      this.#queue.add(removal)
    }
  }

  async #work(): Promise<void> {
    for (let stackId = await this.#queue.take(); stackId !== undefined; stackId = await this.#queue.take()) {
      const turn = await this.#attempt(stackId)
      if (turn.next === 'retry') turn.told(this.#queue.retry(stackId, turn.afterMs))
      else this.#queue.forget(stackId)
      this.#queue.done(stackId)
      if (this.#workerCount > this.#options.concurrency()) break
    }
    this.#workerCount--
  }

  async #attempt(stackId: string): Promise<Turn> {
    const attempt = new AbortController()
    const attemptMs = this.#options.attemptMs()
    const timer = this.#clock.setTimer(attemptMs, () =>
      attempt.abort(new AttemptTimeout(`the attempt took longer than ${attemptMs / 1000} s`)),
    )
    this.#running.set(stackId, attempt)
    try {
      return await this.#turn(stackId, AbortSignal.any([attempt.signal, this.#stopping.signal]))
    } catch (error) {
      // A bug in one turn must cost neither the worker nor the stack.
      this.#log.error('turn failed', { stack_id: stackId, error: toError(error) })
      return { next: 'retry', afterMs: undefined, told: () => undefined }
    } finally {
      timer.cancel()
      this.#running.delete(stackId)
      // An attempt that was superseded leaves the turn to its successor.
      if (!(attempt.signal.reason instanceof Superseded)) this.#settled(stackId)
    }
  }
}
