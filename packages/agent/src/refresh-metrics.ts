// Gauges that are computed at scrape time.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { SyncState } from './desired-state/sync-state.ts'
import type { AgentMetrics } from './metrics.ts'
import type { ReconcileDeps } from './reconcile/deps.ts'
import { parseTimestampMs } from './reconcile/uuid7.ts'
import type { Outbox } from './reporting/outbox.ts'

export interface MetricSources {
  readonly outbox: Outbox
  readonly reconcile: Pick<ReconcileDeps, 'members' | 'parents'>
  readonly state: SyncState
  readonly clock: Clock
}

export function refreshMetrics(metrics: AgentMetrics, { outbox, reconcile, state, clock }: MetricSources): void {
  const phases = outbox.phases()
  for (const phase of ['applied', 'pending', 'failed', 'held', 'removed'] as const) metrics.stacks.set({ phase }, phases.get(phase) ?? 0)
  metrics.managed.set(reconcile.members.size)
  metrics.unsaved.set(reconcile.parents.unsavedCount)
  const pending = [...state.desired.stacks.values()].flatMap(({ stackId, object }) => {
    const report = outbox.newest(stackId)
    return object === null || (report?.phase === 'applied' && report.object_id === object.id) ? [] : [object]
  })
  metrics.lagSequences.set(pending.length)
  const createdMs = pending.map(({ id }) => parseTimestampMs(id)).filter((ms) => ms !== null)
  metrics.lagSeconds.set(createdMs.length === 0 ? 0 : Math.max(0, clock.now() - Math.min(...createdMs)) / 1000)
}
