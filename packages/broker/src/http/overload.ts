// Whom to refuse when the process cannot keep up: first credentials that ask more than their share, then every call, streams last.
// Probes do not pass here. Whoever is refused is told when to come back, each at another time.
import { ApiError } from '@brokkr/contract/error.ts'
import { uniform } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'

export interface Load {
  /** 99th percentile of how late the event loop has been lately. */
  delayMs(): number
  /** For how long the call that has waited longest for a connection of the pool has waited. */
  poolWaitMs(): number
}
export interface OverloadLimits {
  readonly delayMs: number
  readonly poolWaitMs: number
  readonly readsPerSecond: number
  readonly writesPerSecond: number
}
export const overloadLimits: OverloadLimits = { delayMs: 200, poolWaitMs: 5_000, readsPerSecond: 200, writesPerSecond: 50 }

export interface Overload {
  /** Before anybody is asked who is calling: throws `overloaded` when nobody but streams is served any more. */
  checkDoor(call: { isStream: boolean }): void
  /** Throws `overloaded` for a credential above its share. */
  checkCaller(call: { credential: string; isWrite: boolean; isStream: boolean }): void
}

export function createOverload(deps: { clock: Clock; metrics: Metrics; load: Load }, limits: OverloadLimits = overloadLimits): Overload {
  const shed = deps.metrics.counter('brokkr_http_shed_total', 'Calls refused because the process could not keep up', ['reason'])
  const strain = watchStrain(deps, limits)
  const shares = countShares(deps.clock)
  const refuse = (reason: string): ApiError => {
    shed.inc({ reason })
    return new ApiError('overloaded', 'the broker has more to do than it can; try again', { retryAfterSeconds: Math.round(uniform(1, 5)) })
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
  }
}

export type Strain = 'none' | 'heavy callers' | 'every call' | 'streams too'

const measuredEveryMs = 100
/** So long may those who ask most be refused alone, before it is everybody's turn. */
const heavyFirstMs = 2_000
const streamsTooFactor = 4

function watchStrain({ clock, load }: { clock: Clock; load: Load }, limits: OverloadLimits): () => Strain {
  let measuredMs = Number.NEGATIVE_INFINITY
  let sinceMs: number | null = null
  let level: Strain = 'none'
  return () => {
    const nowMs = clock.monotonicMs()
    if (nowMs - measuredMs < measuredEveryMs) return level
    measuredMs = nowMs
    const ratio = Math.max(load.delayMs() / limits.delayMs, load.poolWaitMs() / limits.poolWaitMs)
    sinceMs = ratio > 1 ? (sinceMs ?? nowMs) : null
    level = levelOf(ratio, sinceMs === null ? 0 : nowMs - sinceMs)
    return level
  }
}

/** Pure. */
export function levelOf(ratio: number, strainedMs: number): Strain {
  if (ratio <= 1) return 'none'
  if (strainedMs < heavyFirstMs) return 'heavy callers'
  return ratio > streamsTooFactor ? 'streams too' : 'every call'
}

/** Calls of each credential in the current second; forgotten with it, so that the map stays as small as the second was busy. */
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
