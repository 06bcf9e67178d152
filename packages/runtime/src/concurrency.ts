// Bounded parallelism: a map over many items with few at a time, and a limiter shared by callers who do not know each other.
import { Retryable, toError } from './errors.ts'

/**
 * Results in the order of the items. The first failure starts nothing further, waits for what runs, then rejects: no call is
 * left running behind the caller's back. An aborted signal does the same with its reason.
 */
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
  const lanes = Array.from({ length: Math.min(checkedLimit(limit), items.length) }, () =>
    lane().catch((thrown: unknown) => void failures.push(thrown)),
  )
  await Promise.all(lanes)
  if (failures.length > 0) throw failures[0]
  return results
}

export interface Limiter {
  /** Waits for a free place, in order of asking; a caller whose signal is aborted gives up its place in the queue. */
  run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T>
  readonly active: number
  readonly waiting: number
}

/** A function as limit is asked each time a place is given away: for settings that change. */
export function createLimiter(limit: number | (() => number), { waitingMax = Infinity }: { waitingMax?: number } = {}): Limiter {
  const queue: (() => void)[] = []
  let active = 0
  const places = () => checkedLimit(typeof limit === 'function' ? limit() : limit)
  const admit = () => {
    while (active < places() && queue.length > 0) {
      active += 1
      queue.shift()?.()
    }
  }
  return {
    async run(work, signal) {
      if (active >= places() && queue.length >= waitingMax) throw tooMany(waitingMax)
      await admitted(queue, admit, signal)
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

/** Resolves when `admit` has taken this caller from the queue. */
function admitted(queue: (() => void)[], admit: () => void, signal?: AbortSignal): Promise<void> {
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

function checkedLimit(limit: number): number {
  if (limit >= 1) return limit
  throw new RangeError(`a limit of parallel work is at least 1, not ${limit}`)
}

function tooMany(waitingMax: number): Retryable {
  return new Retryable(`${waitingMax} callers wait already: try again in a moment`, { code: 'overloaded' })
}
