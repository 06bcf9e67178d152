// Where a published sample key is allowed, somebody must not forget it: a warning every hour, and a gauge for alerts.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { type RunningLoop, startLoop } from '@brokkr/runtime/loop.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import { sampleHashes } from './domain/sample-keys.ts'
import * as adminRole from './store/admin-role.ts'
import type { Sql } from './store/sql.ts'

const hourMs = 3_600_000

/** null where sample keys are not allowed: the start has refused them. */
export function watchSampleKeys(
  deps: { sql: Sql; clock: Clock; log: Log; metrics: Metrics },
  { isAllowed }: { isAllowed: boolean },
): RunningLoop | null {
  const inUse = deps.metrics.gauge('brokkr_default_admin_pak_hash_in_use', '1 while a published sample key opens this broker')
  inUse.set(0)
  if (!isAllowed) return null
  const run = async () => {
    const { live } = await adminRole.countLiveAmong(deps.sql, { hashes: [...sampleHashes] })
    inUse.set(live > 0 ? 1 : 0)
    if (live > 0) deps.log.warn('a published sample key is an admin key of this broker: replace it (brokkr broker rotate admin)')
    return { live }
  }
  return startLoop({ clock: deps.clock, log: deps.log }, { name: 'sample-key-watch', everyMs: hourMs, run }, { immediately: true })
}
