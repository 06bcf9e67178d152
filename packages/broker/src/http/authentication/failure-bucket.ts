// A token bucket per client address, used by failed authentications only: it slows down guessing and never delays a valid PAK from the
// same address.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { LRUCache } from 'lru-cache'

export interface FailureBucket {
  /** Counts one failure. Returns 0, or the seconds to wait if the address exceeded its limit. */
  fail(address: string): number
}
interface Level {
  tokens: number
  atMs: number
}

export interface BucketOptions {
  readonly burst?: number
  readonly perSecond?: number
  /** Number of addresses kept; the least recently used one is dropped first. */
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
