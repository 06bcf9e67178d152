// A bucket of tokens per address, spent by failed sign-ins alone: guessing is slowed down, and a valid key behind the same
// address is never asked to wait.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { LRUCache } from 'lru-cache'

export interface FailureBucket {
  /** Counts one failure. 0: answer it; else the address is over its share and may come back after so many seconds. */
  fail(address: string): number
}
interface Level {
  tokens: number
  atMs: number
}

export interface BucketOptions {
  readonly burst?: number
  readonly perSecond?: number
  /** Addresses remembered; the one unheard for longest is forgotten first. */
  readonly addressesMax?: number
}

export function createFailureBucket(deps: { clock: Clock }, options: BucketOptions = {}): FailureBucket {
  const { burst = 50, perSecond = 10, addressesMax = 10_000 } = options
  const levels = new LRUCache<string, Level>({ max: addressesMax })
  return {
    fail: (address) => {
      const nowMs = deps.clock.monotonicMs()
      const before = levels.get(address) ?? { tokens: burst, atMs: nowMs }
      const tokens = Math.min(burst, before.tokens + ((nowMs - before.atMs) / 1000) * perSecond)
      const isOver = tokens < 1
      levels.set(address, { tokens: isOver ? tokens : tokens - 1, atMs: nowMs })
      return isOver ? Math.max(1, Math.ceil((1 - tokens) / perSecond)) : 0
    },
  }
}
