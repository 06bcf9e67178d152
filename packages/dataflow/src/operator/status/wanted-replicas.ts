// Number of processors that a flow should have now, and why it is 0. Pure.
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import { isTerminating, type KubeObject, timeText } from '@brokkr/kube'
import { annotation } from '../names.ts'
import type { MaintenanceState } from './maintenance.ts'

export interface WantedReplicas {
  readonly count: number
  /** Message of phase Stopped; undefined while processors are wanted. */
  readonly stopped: string | undefined
}

export const isPaused = (object: KubeObject): boolean => object.metadata.annotations?.[annotation.paused] === 'true'

export function countWanted(object: KubeObject, flow: Flow, maintenance: MaintenanceState): WantedReplicas {
  const reason = findStopReason(object, flow, maintenance)
  if (reason !== undefined) return { count: 0, stopped: reason }
  return { count: flow.source.type === 'kafka' ? flow.replicas : 1, stopped: undefined }
}

function findStopReason(object: KubeObject, flow: Flow, maintenance: MaintenanceState): string | undefined {
  if (isTerminating(object)) return 'being deleted'
  if (isPaused(object)) return 'paused by hand'
  if (maintenance.isSuspended) return 'in maintenance until it is no longer suspended'
  if (maintenance.untilMs !== undefined) return `in maintenance until ${timeText(maintenance.untilMs)}`
  return flow.replicas === 0 ? 'scaled to zero' : undefined
}
