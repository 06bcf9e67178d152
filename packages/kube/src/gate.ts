// How many requests may be on their way to one API server, and how many may start per second. First come, first served.
import type { Clock } from '@brokkr/runtime/clock.ts'

export interface GateLimits {
  /** Requests in flight, watches and urgent calls apart. */
  inFlight: number
  /** Requests started per second; 0 means no rate. */
  qps: number
  burst: number
}

export interface Gate {
  /** Waits for a place. The function it gives leaves the place, and does so once however often it is called. */
  enter(signal?: AbortSignal): Promise<() => void>
  /** The same where nobody has to wait; undefined: somebody has. */
  enterNow(): (() => void) | undefined
  set(limits: Partial<GateLimits>): void
  readonly active: number
  readonly waiting: number
}

interface Waiter {
  go(): void
}

export function createGate(deps: { clock: Clock }, initial: GateLimits): Gate {
  const limits = { ...initial }
  const queue = new Set<Waiter>()
  const bucket = { tokens: initial.burst, atMs: deps.clock.monotonicMs() }
  let active = 0
  let timer: { cancel(): void } | undefined

  function open(): void {
    for (const waiter of queue) {
      if (active >= limits.inFlight || !takeToken()) return
      queue.delete(waiter)
      active++
      waiter.go()
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
      open()
    })
    return false
  }

  function leave(): () => void {
    let left = false
    return () => {
      if (left) return
      left = true
      active--
      open()
    }
  }

  return {
    enterNow() {
      if (queue.size > 0 || active >= limits.inFlight || !takeToken()) return undefined
      active++
      return leave()
    },
    enter(signal) {
      if (signal?.aborted) return Promise.reject(signal.reason as Error)
      const { promise, resolve, reject } = Promise.withResolvers<() => void>()
      const waiter: Waiter = {
        go() {
          signal?.removeEventListener('abort', giveUp)
          resolve(leave())
        },
      }
      const giveUp = (): void => {
        queue.delete(waiter)
        reject(signal?.reason as Error)
      }
      signal?.addEventListener('abort', giveUp, { once: true })
      queue.add(waiter)
      open()
      return promise
    },
    set(change) {
      Object.assign(limits, change)
      open()
    },
    get active() {
      return active
    },
    get waiting() {
      return queue.size
    },
  }
}
