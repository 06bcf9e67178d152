// Renews a PAK that the agent created, and finishes an interrupted renewal. Once the broker accepted the new PAK the process uses it,
// even if the Secret could not be written; the write is retried.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import { type PakProbe, type PakStore, renewPak, type StoredPak } from './own-pak.ts'
import type { AgentPaks } from './paks.ts'

export interface PakRenewalDeps {
  readonly paks: AgentPaks
  readonly store: PakStore
  readonly probe: PakProbe
  readonly clock: Clock
  readonly log: Log
  /** 0: never. */
  readonly days: number
}
export interface PakRenewalLoop extends Loop {
  /** True while `next` may be the valid PAK and the last run was long enough ago. */
  isWorthARun(): boolean
}
const dayMs = 86_400_000
const hourMs = 3_600_000
/** Interval of an unfinished renewal, well below agent.frozen_after_seconds. */
const unfinishedMs = 30_000
const apartMs = 5_000

export function pakRenewalLoop(deps: PakRenewalDeps): PakRenewalLoop {
  const { paks, store, clock, log, days } = deps
  const everyMs = days === 0 ? Number.POSITIVE_INFINITY : Math.min(hourMs, (days * dayMs) / 10)
  /** In use, but not stored in the Secret yet. */
  let unsaved: StoredPak | null = null
  let ranAtMs = Number.NEGATIVE_INFINITY
  const isUnfinished = () => unsaved !== null || (paks.storedPak?.next ?? null) !== null
  const remember = (key: StoredPak) => {
    paks.setStored(key)
    if (key.next === null) unsaved = key
  }

  async function finish(stored: StoredPak): Promise<void> {
    if (unsaved !== null) await store.save(unsaved)
    else if ((await renewPak({ ...deps, now: () => clock.now(), remember }, stored)) === null)
      return log.warn('PAK renewal failed: the broker accepts neither PAK')
    unsaved = null
    log.info('PAK renewed')
  }

  return {
    name: 'key-renewal',
    everyMs: () => (isUnfinished() ? Math.min(unfinishedMs, everyMs) : everyMs),
    isWorthARun: () => isUnfinished() && clock.monotonicMs() - ranAtMs >= apartMs,
    run: async () => {
      const { storedPak } = paks
      const isDue = storedPak !== null && days !== 0 && clock.now() - (storedPak.sinceMs ?? 0) >= days * dayMs
      if (storedPak === null || !(isDue || isUnfinished())) return
      ranAtMs = clock.monotonicMs()
      try {
        await finish(storedPak)
      } catch (error) {
        log.warn('PAK renewal failed', { why: errorText(error) })
      } finally {
        ranAtMs = clock.monotonicMs()
      }
    },
  }
}
