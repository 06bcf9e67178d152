// Metrics of the operator: flows by phase, and figures of each flow that alerts use. A standby reports no flows, so that sums are right.
import { type KubeObject, numberAt, textAt, valueAt } from '@brokkr/kube'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'

const phases = ['Pending', 'Running', 'Error', 'Stopped'] as const

export function measureFlows(
  metrics: Metrics,
  options: { readonly isLeader: () => boolean; readonly flows: () => Iterable<KubeObject> },
): void {
  const place = ['namespace', 'name'] as const
  const status = metrics.gauge('dataflow_status', 'Phase of a flow: 1 for the current one', [...place, 'phase'])
  const blocked = metrics.gauge('dataflow_blocked', 'Whether a flow is blocked: 1 or 0', place)
  const stale = metrics.gauge('dataflow_progress_stale', 'Whether the last observation of a flow is stale: 1 or 0', place)
  const total = metrics.gauge('dataflow_flows', 'Number of flows by phase', ['phase'])
  metrics.beforeScrape(() => {
    for (const gauge of [status, blocked, stale, total]) gauge.reset()
    if (!options.isLeader()) return
    for (const phase of phases) total.set({ phase }, 0)
    for (const flow of options.flows()) {
      const { namespace = '', name } = flow.metadata
      const phase = textAt(flow, 'status', 'phase') ?? 'Pending'
      status.set({ namespace, name, phase }, 1)
      total.inc({ phase })
      if (numberAt(flow, 'status', 'readCount') === undefined) continue
      blocked.set({ namespace, name }, valueAt(flow, 'status', 'blocked') === undefined ? 0 : 1)
      stale.set({ namespace, name }, valueAt(flow, 'status', 'progress', 'stale') === true ? 1 : 0)
    }
  })
}
