// Gauges that are worked out when somebody scrapes them.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { WantedMap } from './follow/wanted-map.ts'
import type { AgentMetrics } from './metrics.ts'
import type { ReconcileDeps } from './reconcile/deps.ts'
import type { Outbox } from './reconcile/outbox.ts'
import { madeAtMs } from './reconcile/uuid7.ts'

export interface MetricSources {
  readonly outbox: Outbox
  readonly reconcile: Pick<ReconcileDeps, 'members' | 'parents'>
  readonly map: WantedMap
  readonly clock: Clock
}

export function refreshMetrics(metrics: AgentMetrics, { outbox, reconcile, map, clock }: MetricSources): void {
  const phases = outbox.phases()
  for (const phase of ['applied', 'pending', 'failed', 'held', 'removed'] as const) metrics.stacks.set({ phase }, phases.get(phase) ?? 0)
  metrics.managed.set(reconcile.members.size)
  metrics.unsaved.set(reconcile.parents.unsavedCount)
  const late = [...map.levels.wanted.values()].flatMap(({ stackId, object }) => {
    const told = outbox.newest(stackId)
    return object === null || (told?.phase === 'applied' && told.object_id === object.id) ? [] : [object]
  })
  metrics.lagSequences.set(late.length)
  const made = late.map(({ id }) => madeAtMs(id)).filter((ms) => ms !== null)
  metrics.lagSeconds.set(made.length === 0 ? 0 : Math.max(0, clock.now() - Math.min(...made)) / 1000)
}
