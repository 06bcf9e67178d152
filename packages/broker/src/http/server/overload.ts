// Decides which requests to refuse under overload: first those of credentials above their share, then all requests, streams last.
// Probes are always served. The measure is the backlog of this process: requests in progress, the wait for a database connection, and
// the event loop delay that this process causes. Each refused client gets a different Retry-After.
import { ApiError } from '@brokkr/contract/errors.ts'
import { randomBetween } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'

export interface Load {
  /** 99th percentile of the recent event loop delay caused by this process. */
  delayMs(): number
  /** Longest current wait for a connection of the pool. */
  poolWaitMs(): number
}
export interface OverloadLimits {
  /** Requests that were read completely and have no response yet, without streams. */
  readonly callsInProgress: number
  readonly delayMs: number
  readonly poolWaitMs: number
  readonly readsPerSecond: number
  readonly writesPerSecond: number
}
export const overloadLimits: OverloadLimits = {
  callsInProgress: 2_000,
  delayMs: 200,
  poolWaitMs: 5_000,
  readsPerSecond: 200,
  writesPerSecond: 50,
}

export interface Overload {
  /** Call before authentication: throws `overloaded` while only streams are served. */
  checkDoor(call: { isStream: boolean }): void
  /** Throws `overloaded` for a credential above its share. */
  checkCaller(call: { credential: string; isWrite: boolean; isStream: boolean }): void
  /** Counts a request as in progress until `work` ends. */
  track<T>(work: () => Promise<T>): Promise<T>
}

export function createOverload(deps: { clock: Clock; metrics: Metrics; load: Load }, limits: OverloadLimits = overloadLimits): Overload {
  const shed = deps.metrics.counter('brokkr_http_shed_total', 'Number of requests refused because of overload, by reason', ['reason'])
  const inProgress = deps.metrics.gauge(
    'brokkr_http_calls_in_progress',
    'Number of requests that were read completely and have no response yet',
  )
  let calls = 0
  deps.metrics.beforeScrape(() => inProgress.set(calls))
  const strain = watchStrain({ ...deps, calls: () => calls }, limits)
  const shares = countShares(deps.clock)
  const refuse = (reason: string): ApiError => {
    shed.inc({ reason })
    return new ApiError('overloaded', 'the broker is overloaded; retry after the `Retry-After` time', {
      retryAfterSeconds: Math.round(randomBetween(1, 5)),
    })
  }
  return {
    checkDoor: ({ isStream }) => {
      const level = strain()
      if (level === 'streams too' || (level === 'every call' && !isStream)) throw refuse(level)
    },
    checkCaller: ({ credential, isWrite, isStream }) => {
      const perSecond = shares.add(credential, isWrite)
      const isHeavy = perSecond > (isWrite ? limits.writesPerSecond : limits.readsPerSecond)
      if (isHeavy && !isStream && strain() !== 'none') throw refuse('heavy callers')
    },
    track: async (work) => {
      calls += 1
      try {
        return await work()
      } finally {
        calls -= 1
      }
    },
  }
}

export type Strain = 'none' | 'heavy callers' | 'every call' | 'streams too'

const measuredEveryMs = 100
/** For this long only the heaviest callers are refused; then all requests are. */
const heavyFirstMs = 2_000
const streamsTooFactor = 4

function watchStrain({ clock, load, calls }: { clock: Clock; load: Load; calls: () => number }, limits: OverloadLimits): () => Strain {
  let measuredMs = Number.NEGATIVE_INFINITY
  let sinceMs: number | null = null
  let level: Strain = 'none'
  return () => {
    const nowMs = clock.monotonicMs()
    if (nowMs - measuredMs < measuredEveryMs) return level
    measuredMs = nowMs
    const ratio = Math.max(calls() / limits.callsInProgress, load.delayMs() / limits.delayMs, load.poolWaitMs() / limits.poolWaitMs)
    sinceMs = ratio > 1 ? (sinceMs ?? nowMs) : null
    level = decideOverloadLevel(ratio, sinceMs === null ? 0 : nowMs - sinceMs)
    return level
  }
}

/** Pure. */
export function decideOverloadLevel(ratio: number, strainedMs: number): Strain {
  if (ratio <= 1) return 'none'
  if (strainedMs < heavyFirstMs) return 'heavy callers'
  return ratio > streamsTooFactor ? 'streams too' : 'every call'
}

/** Requests per credential in the current second. Cleared each second, so the map stays small. */
function countShares(clock: Clock): { add(credential: string, isWrite: boolean): number } {
  let second = -1
  let counts = new Map<string, number>()
  return {
    add: (credential, isWrite) => {
      const now = Math.floor(clock.monotonicMs() / 1_000)
      if (now !== second) {
        second = now
        counts = new Map()
      }
      const key = `${isWrite ? 'w' : 'r'} ${credential}`
      const count = (counts.get(key) ?? 0) + 1
      counts.set(key, count)
      return count
    },
  }
}
