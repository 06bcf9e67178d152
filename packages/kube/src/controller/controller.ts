// Runs `reconcile` for keys of a queue with a few workers. `reconcile` reads the current state and says when to run again.
import type { BackoffPolicy } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import { KubeError } from '../client/kube-error.ts'
import { WorkQueue } from './work-queue.ts'

/** done: run again when the key is added · afterMs: run again after this time. After a throw the key is retried with backoff. */
export type Outcome = 'done' | { afterMs: number }

export interface ControllerOptions {
  name: string
  /** Must be idempotent. The signal aborts it at the time limit and when the controller stops. */
  reconcile(key: string, signal: AbortSignal): Promise<Outcome>
  /** Number of keys in parallel, never the same key twice. Default 1. */
  concurrency?: number
  /** Default 5 min. */
  timeoutMs?: number
  backoff?: BackoffPolicy
}

export interface Controller {
  readonly name: string
  enqueue(key: string): void
  enqueueAfter(key: string, ms: number): void
  whenIdle(): Promise<void>
  /** Resolves when a worker has taken every key that waits; it may still be busy with them. */
  whenDrained(): Promise<void>
  /** Takes no new keys, waits `graceMs` (default 0) for running ones, then aborts them. Resolves when all have ended. */
  stop(options?: { graceMs?: number }): Promise<void>
}

const BACKOFF: BackoffPolicy = { baseMs: 1_000, maxMs: 300_000, jitter: 'equal' }

export function startController(deps: { clock: Clock; log: Log; metrics?: Metrics }, options: ControllerOptions): Controller {
  const queue = new WorkQueue(deps, options.backoff ?? BACKOFF)
  const stopping = new AbortController()
  const measure = meter(deps, queue, options.name)
  const workers = Array.from({ length: options.concurrency ?? 1 }, () => work())

  async function work(): Promise<void> {
    for (let key = await queue.take(); key !== undefined; key = await queue.take()) {
      const startedMs = deps.clock.monotonicMs()
      const result = await once(key)
      measure(result, deps.clock.monotonicMs() - startedMs)
      queue.done(key)
    }
  }

  async function once(key: string): Promise<'done' | 'again' | 'failed' | 'stopped'> {
    const limit = startLimit(deps.clock, stopping.signal, options.timeoutMs ?? 300_000)
    try {
      const outcome = await options.reconcile(key, limit.signal)
      queue.forget(key)
      if (outcome === 'done') return 'done'
      queue.addAfter(key, outcome.afterMs)
      return 'again'
    } catch (error) {
      if (stopping.signal.aborted) return 'stopped'
      const pauseMs = queue.retry(key, error instanceof KubeError ? error.retryAfterMs : undefined)
      deps.log.warn('reconcile failed', { controller: options.name, key, error: String(error), pauseMs: Math.round(pauseMs) })
      return 'failed'
    } finally {
      limit.clear()
    }
  }

  return {
    name: options.name,
    enqueue: (key) => queue.add(key),
    enqueueAfter: (key, ms) => queue.addAfter(key, ms),
    whenIdle: () => queue.whenIdle(),
    whenDrained: () => queue.whenDrained(),
    async stop({ graceMs = 0 } = {}) {
      queue.close()
      const timer = deps.clock.setTimer(graceMs, () => stopping.abort(new Error(`the controller ${options.name} stops`)))
      await Promise.all(workers)
      timer.cancel()
    },
  }
}

function startLimit(clock: Clock, stopping: AbortSignal, timeoutMs: number): { signal: AbortSignal; clear(): void } {
  const controller = new AbortController()
  const stop = (): void => controller.abort(stopping.reason)
  if (stopping.aborted) stop()
  stopping.addEventListener('abort', stop, { once: true })
  const timer = clock.setTimer(timeoutMs, () => controller.abort(new Error(`took longer than ${timeoutMs} ms`)))
  return {
    signal: controller.signal,
    clear() {
      timer.cancel()
      stopping.removeEventListener('abort', stop)
    },
  }
}

function meter(deps: { metrics?: Metrics }, queue: WorkQueue, controller: string): (result: string, ms: number) => void {
  const { metrics } = deps
  if (!metrics) return () => undefined
  const total = metrics.counter('reconcile_total', 'Finished looks at a key', ['controller', 'result'])
  const seconds = metrics.histogram('reconcile_duration_seconds', 'How long a look at a key took', ['controller'])
  const depth = metrics.gauge('reconcile_queue', 'Number of keys in the work queue by state', ['controller', 'state'])
  metrics.beforeScrape(() => {
    for (const state of ['waiting', 'delayed', 'active'] as const) depth.set({ controller, state }, queue[state])
  })
  return (result, ms) => {
    total.inc({ controller, result })
    seconds.observe({ controller }, ms / 1000)
  }
}
