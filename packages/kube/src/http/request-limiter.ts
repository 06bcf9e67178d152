// Limits the requests in flight to one API server and the requests started per second. Waiting requests are served in order.
import type { Clock } from '@brokkr/runtime/clock.ts'

export interface RequestLimits {
  /** Requests in flight, without watches and urgent requests. */
  inFlight: number
  /** Requests started per second; 0 means no limit. */
  qps: number
  burst: number
}

export interface RequestLimiter {
  /** Waits for a slot. The returned function releases it; further calls of that function do nothing. */
  acquire(signal?: AbortSignal): Promise<() => void>
  /** Takes a slot if one is free and no request waits. */
  tryAcquire(): (() => void) | undefined
  set(limits: Partial<RequestLimits>): void
  readonly active: number
  readonly waiting: number
}

interface Waiter {
  start(): void
}

export function createRequestLimiter(deps: { clock: Clock }, initial: RequestLimits): RequestLimiter {
  const limits = { ...initial }
  const queue = new Set<Waiter>()
  const bucket = { tokens: initial.burst, atMs: deps.clock.monotonicMs() }
  let active = 0
  let timer: { cancel(): void } | undefined

  function startWaiting(): void {
    for (const waiter of queue) {
      if (active >= limits.inFlight || !takeToken()) return
      queue.delete(waiter)
      active++
      waiter.start()
    }
  }

  function takeToken(): boolean {
    if (limits.qps <= 0) return true
    const nowMs = deps.clock.monotonicMs()
    bucket.tokens = Math.min(Math.max(1, limits.burst), bucket.tokens + ((nowMs - bucket.atMs) * limits.qps) / 1000)
    bucket.atMs = nowMs
    if (bucket.tokens >= 1) {
      bucket.tokens--
      return true
    }
    timer ??= deps.clock.setTimer(((1 - bucket.tokens) * 1000) / limits.qps, () => {
      timer = undefined
      startWaiting()
    })
    return false
  }

  function createRelease(): () => void {
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      active--
      startWaiting()
    }
  }

  return {
    tryAcquire() {
      if (queue.size > 0 || active >= limits.inFlight || !takeToken()) return undefined
      active++
      return createRelease()
    },
    acquire(signal) {
      if (signal?.aborted) return Promise.reject(signal.reason as Error)
      const { promise, resolve, reject } = Promise.withResolvers<() => void>()
      const waiter: Waiter = {
        start() {
          signal?.removeEventListener('abort', abandon)
          resolve(createRelease())
        },
      }
      const abandon = (): void => {
        queue.delete(waiter)
        reject(signal?.reason as Error)
      }
      signal?.addEventListener('abort', abandon, { once: true })
      queue.add(waiter)
      startWaiting()
      return promise
    },
    set(change) {
      Object.assign(limits, change)
      startWaiting()
    },
    get active() {
      return active
    },
    get waiting() {
      return queue.size
    },
  }
}
