// Published sample PAKs: their hashes, and a warning while one is in use.
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { type RunningLoop, startLoop } from '@brokkr/runtime/loop.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import * as adminRole from '../admin/store/admin-role.ts'

// Hashes of published sample PAKs. A broker rejects them unless broker.allow_sample_pak is set.
export const sampleHashes: readonly string[] = ['4c697273df3d764cba950bb5c04368097685f09259f5bd880d892cf1ff9f4cdd']

export const isSampleHash = (hash: string): boolean => sampleHashes.includes(hash)

// While a published sample PAK is in use: logs a warning every hour and sets a gauge for alerts.

const hourMs = 3_600_000

/** null if sample PAKs are not allowed; then the start rejects them. */
export function watchSamplePaks(
  deps: { sql: Sql; clock: Clock; log: Log; metrics: Metrics },
  { isAllowed }: { isAllowed: boolean },
): RunningLoop | null {
  const inUse = deps.metrics.gauge('brokkr_default_admin_pak_hash_in_use', '1 while a published sample PAK is an admin PAK of this broker')
  inUse.set(0)
  if (!isAllowed) return null
  const run = async () => {
    const { live } = await adminRole.countLiveAmong(deps.sql, { hashes: [...sampleHashes] })
    inUse.set(live > 0 ? 1 : 0)
    if (live > 0) deps.log.warn('sample admin PAK in use, replace it with: brokkr broker rotate admin')
    return { live }
  }
  return startLoop({ clock: deps.clock, log: deps.log }, { name: 'sample-key-watch', everyMs: hourMs, run }, { immediately: true })
}
