// Outcome of an attempt → status row and event. Pure. A failure is reported when it first occurs, when it changes, and then once an hour.

import type { StackReport } from '@brokkr/contract/feed/stream.ts'
import type { NewAgentEvent } from '@brokkr/contract/reports/agent-event.ts'
import type { AgentId, DeploymentObjectId, StackId } from '@brokkr/contract/wire.ts'
import type { FieldChange } from '../reconcile/drift/detect-drift.ts'
import type { ObjectOutcome, Outcome } from '../reconcile/outcome.ts'
import { uuid7 } from '../reconcile/uuid7.ts'

export interface AttemptReport {
  readonly agentId: AgentId
  readonly stackId: StackId
  readonly rev: number
  /** The deployment object or deletion marker; null for a removal without one. */
  readonly object: { readonly id: DeploymentObjectId; readonly sequenceId: number } | null
  /** The removal is held and the applied object keeps running. */
  readonly isHeld: boolean
  /** Attempts for this deployment object, including this one. */
  readonly attempt: number
  readonly outcome: Outcome
  readonly nowMs: number
  readonly tookMs: number
  readonly retryAtMs: number | null
  /** Conflict with another writer; null: none. */
  readonly conflict: string | null
}

export function toStatusRow(attempt: AttemptReport): StackReport {
  const { outcome } = attempt
  const at = { stack_id: attempt.stackId, observed_at: toTimestamp(attempt.nowMs), attempts: attempt.attempt }
  if (outcome.phase === 'applied') return appliedRow(attempt, outcome)
  if (outcome.phase === 'removed') {
    const rev = Math.max(attempt.rev, outcome.last?.rev ?? 0)
    return { ...at, rev, object_id: removedObject(attempt), phase: 'removed' }
  }
  const { code, message } = outcome.problem
  const retry_at = attempt.retryAtMs === null ? null : toTimestamp(attempt.retryAtMs)
  return {
    ...at,
    rev: attempt.rev,
    object_id: attempt.object?.id ?? null,
    phase: outcome.phase,
    code,
    message: message.slice(0, messageCharsMax),
    retry_at,
  }
}

function appliedRow(attempt: AttemptReport, { held, drift }: Extract<Outcome, { phase: 'applied' }>): StackReport {
  const objectId = attempt.object?.id ?? null
  if (attempt.isHeld) return toHeldRow(attempt.stackId, attempt.rev, objectId, attempt.nowMs)
  const at = {
    stack_id: attempt.stackId,
    rev: attempt.rev,
    object_id: objectId,
    attempts: attempt.attempt,
    observed_at: toTimestamp(attempt.nowMs),
  }
  const say = (message: string) => message.slice(0, messageCharsMax)
  if (held !== null) return { ...at, phase: 'held', code: 'prune_guard', message: say(held) }
  if (attempt.conflict !== null) return { ...at, phase: 'applied', code: 'drift_fight', message: say(attempt.conflict) }
  if (drift !== null && !drift.isHealed) return { ...at, phase: 'applied', code: 'drifted', message: say(driftText(drift.changes)) }
  return { ...at, phase: 'applied' }
}

const driftText = (changes: readonly FieldChange[]): string =>
  changes
    .slice(0, 20)
    .map(({ kind, namespace, name, path, manager }) => {
      const what = `${kind} ${namespace ? `${namespace}/` : ''}${name}`
      return path === '/' ? `${what} is missing` : `${path} of ${what} was set by ${manager ?? 'an unknown manager'}`
    })
    .join('; ')

export const toHeldRow = (stackId: StackId, rev: number, objectId: DeploymentObjectId | null, nowMs: number): StackReport => ({
  stack_id: stackId,
  rev,
  object_id: objectId,
  phase: 'held',
  code: 'prune_guard',
  message: 'the snapshot removes more stacks than the prune guard allows: approve the removal, or correct the targets',
  attempts: 0,
  observed_at: toTimestamp(nowMs),
})

/** Null: no event. `isFirstLook`: the first attempt of this process. */
export function toAttemptEvent(attempt: AttemptReport, isFirstLook: boolean): NewAgentEvent | null {
  const { outcome, object } = attempt
  switch (outcome.phase) {
    case 'applied': {
      // After a restart the apply event is sent again with its id, in case it was not sent before.
      if (object === null || (!outcome.isNew && !isFirstLook)) return null
      return {
        ...head(attempt, object.id),
        id: outcome.event.id,
        event_type: outcome.event.type,
        status: 'SUCCESS',
        occurred_at: outcome.event.at,
        sequence_id: object.sequenceId,
        ...(outcome.changes.length > 0 ? { changes: [...outcome.changes] } : {}),
      }
    }
    case 'removed': {
      const objectId = removedObject(attempt)
      if (objectId === null || outcome.last === null) return null
      const sequence_id = object?.sequenceId ?? outcome.last.sequence_id
      return { ...head(attempt, objectId), event_type: 'DELETED', status: 'SUCCESS', sequence_id }
    }
    case 'failed': {
      if (object === null) return null
      const { code, message } = outcome.problem
      const failure = { message: message.slice(0, messageCharsMax), error_code: code, sequence_id: object.sequenceId }
      return { ...head(attempt, object.id), event_type: 'FAILED', status: 'FAILURE', ...failure }
    }
    case 'pending':
      return null
    default:
      return outcome satisfies never
  }
}

/** Changes by other writers, and whether they were healed. */
export function toDriftEvent(attempt: AttemptReport): NewAgentEvent | null {
  const { outcome, object } = attempt
  if (outcome.phase !== 'applied' || outcome.drift === null || object === null) return null
  const { changes, isHealed } = outcome.drift
  const count = `${changes.length} ${changes.length === 1 ? 'field' : 'fields'}`
  return {
    ...head(attempt, object.id),
    event_type: 'DRIFT',
    status: isHealed ? 'SUCCESS' : 'FAILURE',
    message: isHealed ? `healed ${count}` : `${count} differ; drift of this stack is only reported`,
    sequence_id: object.sequenceId,
    changes: changes.slice(0, changesMax).map((change) => ({ ...change })),
    ...(isHealed ? {} : { error_code: 'drifted' }),
  }
}

/** Equal keys: the same paths, changed by the same managers. */
export const toDriftKey = (changes: readonly FieldChange[]): string =>
  changes
    .map(({ group, kind, namespace, name, path, manager }) => [group, kind, namespace, name, path, manager].join(' '))
    .toSorted()
    .join('\n')

/** The deletion marker, or the last applied object if the stack is no longer targeted. */
const removedObject = ({ object, outcome }: AttemptReport): DeploymentObjectId | null =>
  object?.id ?? (outcome.phase === 'removed' ? ((outcome.last?.deployment_object_id ?? null) as DeploymentObjectId | null) : null)

const head = (attempt: AttemptReport, objectId: DeploymentObjectId) => ({
  id: uuid7(attempt.nowMs),
  agent_id: attempt.agentId,
  deployment_object_id: objectId,
  attempt: attempt.attempt,
  occurred_at: toTimestamp(attempt.nowMs),
  duration_ms: Math.round(attempt.tookMs),
  resources: attempt.outcome.objects.slice(0, resourcesMax).map(toResource),
})

const toResource = (object: ObjectOutcome) => ({ ...object })

const resourcesMax = 500
const changesMax = 200
const messageCharsMax = 4_096
const repeatMs = 3_600_000

export interface ReportedFailure {
  readonly text: string
  readonly atMs: number
}

/** Whether this failure is reported after the last one. A failure after a reported outage counts only when two attempts in a row end
 *  with it: a starting API server responds 403 or 404 for a moment. `previous` is the result of the attempt before. */
export function shouldReport(event: NewAgentEvent, before: ReportedFailure | undefined, nowMs: number, previous?: string): boolean {
  if (before === undefined || nowMs - before.atMs >= repeatMs) return true
  const text = toFailureKey(event)
  return text !== before.text && (before.text !== outage || text === previous)
}

const outage = 'outage'

/** An outage counts as one failure of the stack, independent of deployment object, message and kind of timeout. */
export const toFailureKey = ({ deployment_object_id, error_code, message }: NewAgentEvent): string =>
  error_code === 'unavailable' || error_code === 'timeout' ? outage : `${deployment_object_id} ${error_code} ${message}`

export const toTimestamp = (ms: number): string => new Date(ms).toISOString().replace('Z', '000Z')
