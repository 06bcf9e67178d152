// Renews the key that the agent keeps itself, every so many days, and finishes a renewal that was begun.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import type { Keys } from '../keys.ts'
import { type KeyJudge, type KeyStore, renewKey } from '../own-key.ts'

export interface KeyRenewalDeps {
  readonly keys: Keys
  readonly store: KeyStore
  readonly judge: KeyJudge
  readonly clock: Clock
  readonly log: Log
  /** 0: never. */
  readonly days: number
}
const dayMs = 86_400_000
const hourMs = 3_600_000

export const keyRenewalLoop = (deps: KeyRenewalDeps): Loop => ({
  name: 'key-renewal',
  everyMs: deps.days === 0 ? Number.POSITIVE_INFINITY : Math.min(hourMs, (deps.days * dayMs) / 10),
  run: async () => {
    const { kept } = deps.keys
    if (kept === null || deps.days === 0) return
    const isDue = kept.next !== null || deps.clock.now() - (kept.sinceMs ?? 0) >= deps.days * dayMs
    if (!isDue) return
    try {
      const renewed = await renewKey({ ...deps, now: () => deps.clock.now() }, kept)
      if (renewed === null) return deps.log.warn('the key could not be renewed: the broker takes neither the old nor the new one')
      deps.keys.keep(renewed)
      deps.log.info('key renewed')
    } catch (error) {
      // What was written stays: the next run goes on with the same new key.
      deps.keys.keep((await deps.store.read()) ?? kept)
      deps.log.warn('the key could not be renewed yet', { why: errorText(error) })
    }
  },
})
