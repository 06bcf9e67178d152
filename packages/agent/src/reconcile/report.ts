// From the outcome of an attempt to what the broker is told: the row that says how the stack stands, and the event that says
// what happened. Pure. The same failure is told when it first occurs, when it changes, and then once an hour.
import type { NewAgentEvent } from '@brokkr/contract/event.ts'
import type { StackReport } from '@brokkr/contract/stream.ts'
import type { AgentId, DeploymentObjectId, StackId } from '@brokkr/contract/wire.ts'
import type { Outcome, TouchedObject } from './outcome.ts'
import { uuid7 } from './uuid7.ts'
import type { FieldChange } from './verify.ts'

export interface Attempted {
  readonly agentId: AgentId
  readonly stackId: StackId
  readonly rev: number
  /** What was to be brought about: a revision or a marker; null for a removal without one. */
  readonly object: { readonly id: DeploymentObjectId; readonly sequenceId: number } | null
  /** Removal is held back while the revision runs on. */
  readonly isHeld: boolean
  /** Since the revision came, this one included. */
  readonly attempt: number
  readonly outcome: Outcome
  readonly nowMs: number
  readonly tookMs: number
  readonly retryAtMs: number | null
  /** What is fought over with somebody else; null: nothing. */
  readonly fight: string | null
}

export function rowOf(done: Attempted): StackReport {
  const { outcome } = done
  const at = { stack_id: done.stackId, observed_at: timestamp(done.nowMs), attempts: done.attempt }
  if (outcome.phase === 'applied') return appliedRow(done, outcome)
  if (outcome.phase === 'removed') {
    const rev = Math.max(done.rev, outcome.last?.rev ?? 0)
    return { ...at, rev, object_id: removedObject(done), phase: 'removed' }
  }
  const { code, message } = outcome.problem
  const retry_at = done.retryAtMs === null ? null : timestamp(done.retryAtMs)
  return {
    ...at,
    rev: done.rev,
    object_id: done.object?.id ?? null,
    phase: outcome.phase,
    code,
    message: message.slice(0, messageCharsMax),
    retry_at,
  }
}

function appliedRow(done: Attempted, { held, drift }: Extract<Outcome, { phase: 'applied' }>): StackReport {
  const objectId = done.object?.id ?? null
  if (done.isHeld) return heldRow(done.stackId, done.rev, objectId, done.nowMs)
  const at = { stack_id: done.stackId, rev: done.rev, object_id: objectId, attempts: done.attempt, observed_at: timestamp(done.nowMs) }
  const say = (message: string) => message.slice(0, messageCharsMax)
  if (held !== null) return { ...at, phase: 'held', code: 'prune_guard', message: say(held) }
  if (done.fight !== null) return { ...at, phase: 'applied', code: 'drift_fight', message: say(done.fight) }
  if (drift !== null && !drift.isHealed) return { ...at, phase: 'applied', code: 'drifted', message: say(driftText(drift.changes)) }
  return { ...at, phase: 'applied' }
}

const driftText = (changes: readonly FieldChange[]): string =>
  changes
    .slice(0, 20)
    .map(({ kind, namespace, name, path, manager }) => {
      const what = `${kind} ${namespace ? `${namespace}/` : ''}${name}`
      return path === '/' ? `${what} is missing` : `${path} of ${what} was set by ${manager ?? 'somebody'}`
    })
    .join('; ')

export const heldRow = (stackId: StackId, rev: number, objectId: DeploymentObjectId | null, nowMs: number): StackReport => ({
  stack_id: stackId,
  rev,
  object_id: objectId,
  phase: 'held',
  code: 'prune_guard',
  message: 'a list asks to remove more than the guard lets pass: approve the removal, or mend what the list is made of',
  attempts: 0,
  observed_at: timestamp(nowMs),
})

/** Null: nothing has happened that is worth a line of history. `isFirstLook`: since this process began. */
export function eventOf(done: Attempted, isFirstLook: boolean): NewAgentEvent | null {
  const { outcome, object } = done
  switch (outcome.phase) {
    case 'applied': {
      // After a restart the arrival is told again under its old id, in case the process died before it was told.
      if (object === null || (!outcome.isNew && !isFirstLook)) return null
      return {
        ...head(done, object.id),
        id: outcome.event.id,
        event_type: outcome.event.type,
        status: 'SUCCESS',
        occurred_at: outcome.event.at,
        sequence_id: object.sequenceId,
        ...(outcome.changes.length > 0 ? { changes: [...outcome.changes] } : {}),
      }
    }
    case 'removed': {
      const objectId = removedObject(done)
      if (objectId === null || outcome.last === null) return null
      const sequence_id = object?.sequenceId ?? outcome.last.sequence_id
      return { ...head(done, objectId), event_type: 'DELETED', status: 'SUCCESS', sequence_id }
    }
    case 'failed': {
      if (object === null) return null
      const { code, message } = outcome.problem
      const failure = { message: message.slice(0, messageCharsMax), error_code: code, sequence_id: object.sequenceId }
      return { ...head(done, object.id), event_type: 'FAILED', status: 'FAILURE', ...failure }
    }
    case 'pending':
      return null
    default:
      return outcome satisfies never
  }
}

/** What another hand did to the members of a stack, and whether it was undone. */
export function driftEventOf(done: Attempted): NewAgentEvent | null {
  const { outcome, object } = done
  if (outcome.phase !== 'applied' || outcome.drift === null || object === null) return null
  const { changes, isHealed } = outcome.drift
  const count = `${changes.length} ${changes.length === 1 ? 'field' : 'fields'}`
  return {
    ...head(done, object.id),
    event_type: 'DRIFT',
    status: isHealed ? 'SUCCESS' : 'FAILURE',
    message: isHealed ? `healed ${count}` : `${count} differ; drift of this stack is only reported`,
    sequence_id: object.sequenceId,
    changes: changes.slice(0, changesMax).map((change) => ({ ...change })),
    ...(isHealed ? {} : { error_code: 'drifted' }),
  }
}

/** Equal texts: the same places, changed by the same managers. */
export const driftKey = (changes: readonly FieldChange[]): string =>
  changes
    .map(({ group, kind, namespace, name, path, manager }) => [group, kind, namespace, name, path, manager].join(' '))
    .toSorted()
    .join('\n')

/** The marker, or the last applied object when the stack only stopped matching. */
const removedObject = ({ object, outcome }: Attempted): DeploymentObjectId | null =>
  object?.id ?? (outcome.phase === 'removed' ? ((outcome.last?.deployment_object_id ?? null) as DeploymentObjectId | null) : null)

const head = (done: Attempted, objectId: DeploymentObjectId) => ({
  id: uuid7(done.nowMs),
  agent_id: done.agentId,
  deployment_object_id: objectId,
  attempt: done.attempt,
  occurred_at: timestamp(done.nowMs),
  duration_ms: Math.round(done.tookMs),
  resources: done.outcome.objects.slice(0, resourcesMax).map(resourceOf),
})

const resourceOf = (object: TouchedObject) => ({ ...object })

const resourcesMax = 500
const changesMax = 200
const messageCharsMax = 4_096
const repeatMs = 3_600_000

export interface ToldFailure {
  readonly text: string
  readonly atMs: number
}

/** Whether this failure is worth telling after that one; `text` identifies it. */
export function isWorthTelling(event: NewAgentEvent, before: ToldFailure | undefined, nowMs: number): boolean {
  return before === undefined || before.text !== failureText(event) || nowMs - before.atMs >= repeatMs
}

/** An API server that is away words it differently each time. */
export const failureText = ({ deployment_object_id, error_code, message }: NewAgentEvent): string =>
  `${deployment_object_id} ${error_code} ${error_code === 'unavailable' ? '' : message}`

export const timestamp = (ms: number): string => new Date(ms).toISOString().replace('Z', '000Z')
