// The flows in a health report, and what an order may ask of one. Pure.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Flow, FlowState } from '@brokkr/contract/flows/flow.ts'
import { type FlowAction, FlowObjectKind, findActionProblem } from '@brokkr/contract/flows/flow-order.ts'
import type { FlowReport } from '@brokkr/contract/flows/flow-report.ts'
import { type HealthReport, resourcesMax } from '@brokkr/contract/health/deployment-health.ts'

export interface ReportedFlow {
  readonly object_id: string
  readonly kind: string
  readonly namespace: string
  readonly name: string
  readonly state: FlowState
  readonly ready: boolean
  readonly message: string | null
  readonly report: FlowReport | null
}
export interface ReportedFlows {
  readonly objects: readonly { readonly id: string; readonly checked_at: string; readonly is_complete: boolean }[]
  readonly flows: readonly ReportedFlow[]
}

/** Longest name of a Kubernetes object. An index of flows has no room for any text. */
const nameCharsMax = 253

/** Reports without a list of resources say nothing about flows. A full list may be cut, also by an agent that does not mark it: what it omits
 *  may exist. */
export function listReportedFlows(reports: readonly HealthReport[]): ReportedFlows {
  const telling = reports.filter(({ summary }) => Array.isArray(summary?.resources))
  return {
    objects: telling.map(({ id, checked_at, summary }) => ({
      id,
      checked_at,
      is_complete: summary?.truncated !== true && (summary?.resources?.length ?? 0) < resourcesMax,
    })),
    flows: telling.flatMap(({ id, summary }) => {
      const byKey = new Map<string, ReportedFlow>()
      for (const { kind, namespace, name, ready, message, flow } of summary?.resources ?? [])
        if (FlowObjectKind.safeParse(kind).success && name.length <= nameCharsMax && namespace.length <= nameCharsMax)
          byKey.set(JSON.stringify([kind, namespace, name]), {
            object_id: id,
            kind,
            namespace,
            name,
            state: toFlowState(flow),
            ready,
            message: message ?? null,
            report: flow ?? null,
          })
      return [...byKey.values()]
    }),
  }
}

const states: Readonly<Record<string, FlowState>> = {
  Pending: 'pending',
  Running: 'running',
  RunningProcessor: 'running',
  RunningTriggers: 'running',
  Stopped: 'stopped',
  Completed: 'completed',
  Error: 'error',
  Failed: 'error',
}

function toFlowState(flow: FlowReport | undefined): FlowState {
  if (flow?.blocked !== undefined) return 'blocked'
  return states[flow?.phase ?? ''] ?? 'unknown'
}

export function requireAction({ kind }: Pick<Flow, 'kind'>, action: FlowAction): void {
  const problem = findActionProblem(action, kind)
  if (problem !== null) throw new ApiError('invalid_flow_order', problem)
}

const detailCharsMax = 500

/** What the audit entry of an order says beyond its action. */
export function toAuditDetails(action: FlowAction): Readonly<Record<string, string>> {
  const cut = (text: string) => text.slice(0, detailCharsMax).toWellFormed()
  if (action.action === 'rewind') return { to: cut(JSON.stringify(action.to)) }
  return action.action === 'skip' ? { position: cut(action.position) } : {}
}
