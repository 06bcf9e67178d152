// Bounded parallelism: a map with a limit, and a limiter that independent callers share.
import { Retryable, toError } from './errors.ts'

/** Returns results in the order of the items. After the first failure or an abort it starts no further call, waits for those in
 *  progress and rejects. */
export async function mapBounded<T, R>(
  items: readonly T[],
  limit: number,
  work: (item: T, index: number) => Promise<R>,
  signal?: AbortSignal,
): Promise<R[]> {
  const results: R[] = Array.from({ length: items.length })
  const failures: unknown[] = []
  let next = 0
  const lane = async () => {
    while (next < items.length && failures.length === 0) {
      signal?.throwIfAborted()
      const index = next++
      results[index] = await work(items[index] as T, index)
    }
  }
  const lanes = Array.from({ length: Math.min(requireLimit(limit), items.length) }, () =>
    lane().catch((thrown: unknown) => void failures.push(thrown)),
  )
  await Promise.all(lanes)
  if (failures.length > 0) throw failures[0]
  return results
}

export interface Limiter {
  /** Waits for a free slot in FIFO order; an aborted signal removes the caller from the queue. */
  run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T>
  readonly active: number
  readonly waiting: number
}

/** A function as limit is read whenever a slot is assigned, for settings that change. */
export function createLimiter(limit: number | (() => number), { waitingMax = Infinity }: { waitingMax?: number } = {}): Limiter {
  const queue: (() => void)[] = []
  let active = 0
  const places = () => requireLimit(typeof limit === 'function' ? limit() : limit)
  const admit = () => {
    while (active < places() && queue.length > 0) {
      active += 1
      queue.shift()?.()
    }
  }
  return {
    async run(work, signal) {
      if (active >= places() && queue.length >= waitingMax) throw tooManyWaiting(waitingMax)
      await waitForAdmission(queue, admit, signal)
      try {
        return await work()
      } finally {
        active -= 1
        admit()
      }
    },
    get active() {
      return active
    },
    get waiting() {
      return queue.length
    },
  }
}

/** Resolves when `admit` has removed this caller from the queue. */
function waitForAdmission(queue: (() => void)[], admit: () => void, signal?: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  if (signal?.aborted) return Promise.reject(toError(signal.reason))
  const enter = () => {
    signal?.removeEventListener('abort', leave)
    resolve()
  }
  const leave = () => {
    queue.splice(queue.indexOf(enter), 1)
    reject(toError(signal?.reason))
  }
  signal?.addEventListener('abort', leave, { once: true })
  queue.push(enter)
  admit()
  return promise
}

function requireLimit(limit: number): number {
  if (limit >= 1) return limit
  throw new RangeError(`a limit of parallel work is at least 1, not ${limit}`)
}

function tooManyWaiting(waitingMax: number): Retryable {
  return new Retryable(`queue is full (${waitingMax} waiting); retry later`, { code: 'overloaded' })
}
