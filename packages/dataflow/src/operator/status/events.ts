// Events of a flow: one per transition of its status. Pure.
import type { DataFlowStatus } from '@brokkr/contract/dataflow/status.ts'

export interface FlowEvent {
  readonly type: 'Normal' | 'Warning'
  readonly reason: string
  readonly message: string
  /** Written at most once. */
  readonly name?: string
}

export const normal = (reason: string, message: string): FlowEvent => ({ type: 'Normal', reason, message })
export const warning = (reason: string, message: string): FlowEvent => ({ type: 'Warning', reason, message })

const pausedMessage = 'paused by hand'

export function listTransitions(before: DataFlowStatus, after: DataFlowStatus): FlowEvent[] {
  const events: FlowEvent[] = []
  const failed = (type: string) => findNewFailure(before, after, type)
  const invalid = failed('SpecValid')
  if (invalid !== undefined) events.push(warning('SpecInvalid', invalid.message))
  const unresolved = failed('SpecResolved')
  if (unresolved !== undefined) events.push(warning('SecretResolutionFailed', unresolved.message))
  const unapplied = failed('ProcessorDeploymentReady')
  if (unapplied !== undefined && ['NameTaken', 'ApplyFailed'].includes(unapplied.reason))
    events.push(warning(unapplied.reason, unapplied.message))
  const exactlyOnce = failed('ExactlyOnce')
  if (exactlyOnce?.reason === 'Unavailable') events.push(warning('ExactlyOnceUnavailable', exactlyOnce.message))
  if (after.message === pausedMessage && before.message !== pausedMessage) events.push(normal('Paused', pausedMessage))
  if (before.message === pausedMessage && after.message !== pausedMessage)
    events.push(normal('Resumed', 'processing goes on at the saved position'))
  const { blocked } = after
  if (blocked !== undefined && blocked.since !== before.blocked?.since)
    events.push(warning('Blocked', `${blocked.stage} ${blocked.connector} at ${blocked.position}: ${blocked.message}`))
  if (after.appliedReset !== undefined && after.appliedReset !== before.appliedReset)
    events.push(normal('CheckpointReset', `reset ${after.appliedReset} was carried out`))
  if (after.appliedRewind !== undefined && after.appliedRewind !== before.appliedRewind)
    events.push(normal('Rewound', `rewind ${after.appliedRewind} was carried out`))
  return events
}

function findNewFailure(before: DataFlowStatus, after: DataFlowStatus, type: string): { reason: string; message: string } | undefined {
  const of = (status: DataFlowStatus) => status.conditions?.find((condition) => condition.type === type)
  const [old, next] = [of(before), of(after)]
  if (next?.status !== 'False') return undefined
  return old?.status === 'False' && old.reason === next.reason && old.message === next.message ? undefined : next
}
