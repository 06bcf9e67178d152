// Keeps the last report of each stack, and converts the outcome of an attempt to a status row, events, a log line and a retry.
import type { StackReport } from '@brokkr/contract/feed/stream.ts'
import type { AgentId, StackId } from '@brokkr/contract/wire.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { type Log } from '@brokkr/runtime/logging/log.ts'
import type { DesiredAction } from '../desired-state/desired-state.ts'
import type { Outcome } from '../reconcile/outcome.ts'
import type { StackState } from '../reconcile/stack-parents.ts'
import type { AttemptResult } from '../reconcile/stack-queue.ts'
import type { Outbox } from './outbox.ts'
import {
  type AttemptReport,
  type ReportedFailure,
  shouldReport,
  toAttemptEvent,
  toDriftEvent,
  toDriftKey,
  toFailureKey,
  toHeldRow,
  toStatusRow,
  toTimestamp,
} from './report.ts'

export type ActiveAction = Extract<DesiredAction, { do: 'run' | 'remove' }>

interface StackMemory {
  failures: number
  /** Reconciled by this process, so the first event was sent. */
  hasBeenSeen: boolean
  told: ReportedFailure | undefined
  /** Key of the last failure, reported or not. */
  lastFailure: string | undefined
  /** Reported drift that still exists. */
  drift: string | null
  applied: Pick<StackState, 'deployment_object_id' | 'rev'> | null
}
export interface StackReporterDeps {
  readonly outbox: Outbox
  readonly agentId: AgentId
  readonly clock: Clock
  readonly log: Log
}

export class StackReporter {
  readonly #deps: StackReporterDeps
  readonly #memory = new Map<StackId, StackMemory>()

  constructor(deps: StackReporterDeps) {
    this.#deps = deps
  }

  /** Sets the applied object that the cluster stores. */
  setApplied(stackId: StackId, state: StackState): void {
    this.#getMemory(stackId).applied = state
  }

  resetFailures(stackId: StackId): void {
    this.#getMemory(stackId).failures = 0
  }

  /** Only for a new object: an attempt without changes must not show the stack as unfinished. */
  reportApplying(action: Extract<DesiredAction, { do: 'run' }>): void {
    const { stack, object } = action
    if (isSkipped(action)) return
    const { failures, applied } = this.#getMemory(stack.stackId)
    if (failures > 0 || applied?.deployment_object_id === object.id) return
    const at = { attempts: 1, observed_at: toTimestamp(this.#deps.clock.now()) }
    this.#deps.outbox.report({ stack_id: stack.stackId, rev: stack.rev, object_id: object.id, phase: 'pending', code: 'applying', ...at })
  }

  reportHeld(stackId: StackId, rev: number): void {
    const { applied } = this.#getMemory(stackId)
    const objectId = (applied?.deployment_object_id ?? null) as Parameters<typeof toHeldRow>[2]
    this.#deps.outbox.report(toHeldRow(stackId, Math.max(rev, applied?.rev ?? 0), objectId, this.#deps.clock.now()))
  }

  /** The agent is not ACTIVE or only observes: the applied state is kept. */
  reportRefused(stackId: StackId, action: DesiredAction, code: keyof typeof refusalTexts): void {
    if (action.do === 'nothing') return
    const { applied } = this.#getMemory(stackId)
    const rev = action.do === 'run' ? action.stack.rev : action.rev
    const object = action.do === 'run' ? action.object.id : action.do === 'remove' ? action.marker?.id : undefined
    this.#deps.outbox.report({
      stack_id: stackId,
      rev: Math.max(rev, applied?.rev ?? 0),
      object_id: (object ?? applied?.deployment_object_id ?? null) as StackReport['object_id'],
      phase: 'held',
      code,
      message: refusalTexts[code],
      attempts: 0,
      observed_at: toTimestamp(this.#deps.clock.now()),
    })
  }

  reportOutcome(
    stackId: StackId,
    action: ActiveAction,
    outcome: Outcome,
    { tookMs, conflict }: Pick<AttemptReport, 'tookMs' | 'conflict'>,
  ): AttemptResult {
    const memory = this.#getMemory(stackId)
    const report = { ...this.#toAttempt(stackId, action, outcome), tookMs, conflict, isSkipped: isSkipped(action) }
    this.#log(report)
    if ('problem' in outcome) {
      memory.failures++
      const onScheduled = (pauseMs: number) => this.#report({ ...report, retryAtMs: report.nowMs + pauseMs }, memory)
      return { next: 'retry', afterMs: outcome.problem.retryAfterMs, onScheduled }
    }
    this.#report(report, memory)
    const applied =
      action.do === 'run' && outcome.phase === 'applied' ? { deployment_object_id: action.object.id, rev: action.stack.rev } : null
    this.#memory.set(stackId, { failures: 0, hasBeenSeen: true, told: undefined, lastFailure: undefined, applied, drift: memory.drift })
    if (outcome.phase === 'removed' && report.object === null) this.#memory.delete(stackId)
    return { next: 'done' }
  }

  forget(stackId: StackId): void {
    this.#memory.delete(stackId)
  }

  /** The applied object; null: unknown or none. */
  getApplied(stackId: StackId): StackMemory['applied'] {
    return this.#memory.get(stackId)?.applied ?? null
  }

  #toAttempt(stackId: StackId, action: ActiveAction, outcome: Outcome): Omit<AttemptReport, 'tookMs' | 'conflict'> {
    const isRun = action.do === 'run'
    return {
      agentId: this.#deps.agentId,
      stackId,
      rev: isRun ? action.stack.rev : action.rev,
      object: isRun ? action.object : action.marker,
      isHeld: isRun && action.isHeld,
      attempt: this.#getMemory(stackId).failures + 1,
      outcome,
      nowMs: this.#deps.clock.now(),
      retryAtMs: null,
    }
  }

  #report(report: AttemptReport & { isSkipped: boolean }, memory: StackMemory): void {
    const { outbox } = this.#deps
    const isFailure = report.outcome.phase === 'failed'
    const event = toAttemptEvent(report, !memory.hasBeenSeen)
    const reportedEvent =
      event !== null && (!isFailure || shouldReport(event, memory.told, report.nowMs, memory.lastFailure)) ? event : null
    if (event && isFailure) memory.lastFailure = toFailureKey(event)
    if (reportedEvent) outbox.event(reportedEvent)
    if (reportedEvent && isFailure) memory.told = { text: toFailureKey(reportedEvent), atMs: report.nowMs }
    this.#reportDrift(report, memory)
    const isRemoved = report.outcome.phase === 'removed'
    // The running object is kept, and the broker's report about the object that it could not send stays valid.
    if (report.isSkipped) return
    outbox.report(toStatusRow(report), {
      after: isRemoved ? (reportedEvent?.id ?? null) : null,
      isLast: isRemoved && report.object === null,
    })
  }

  /** Healed drift is reported each time, drift that stays only once. */
  #reportDrift(report: AttemptReport, memory: StackMemory): void {
    const event = toDriftEvent(report)
    const drift = report.outcome.phase === 'applied' ? report.outcome.drift : null
    const key = drift && !drift.isHealed ? toDriftKey(drift.changes) : null
    if (event && (key === null || key !== memory.drift)) this.#deps.outbox.event(event)
    if (report.outcome.phase === 'applied') memory.drift = key
  }

  #log({ stackId, rev, attempt, outcome, tookMs }: AttemptReport): void {
    const { log } = this.#deps
    const fields = { stack_id: stackId, rev, attempt, ms: Math.round(tookMs), objects: outcome.objects.length }
    if ('problem' in outcome) {
      const { code, message } = outcome.problem
      log.warn(outcome.phase === 'failed' ? 'stack failed' : 'stack pending', { ...fields, code, why: message })
    } else if (outcome.phase === 'removed') log.info('stack removed', fields)
    else if (outcome.isNew || outcome.objects.some(({ operation }) => operation !== 'unchanged')) log.info('stack applied', fields)
    else log.debug('stack unchanged', fields)
    if (outcome.phase === 'applied' && outcome.warnings.length > 0)
      log.warn('stack applied with warnings', { stack_id: stackId, rev, warnings: outcome.warnings })
  }

  #getMemory(stackId: StackId): StackMemory {
    const memory = this.#memory.get(stackId)
    if (memory) return memory
    const newMemory: StackMemory = { failures: 0, hasBeenSeen: false, told: undefined, lastFailure: undefined, drift: null, applied: null }
    this.#memory.set(stackId, newMemory)
    return newMemory
  }
}

const refusalTexts = {
  paused: 'the agent is not ACTIVE, so nothing is changed in its cluster',
  observe: 'the agent only observes its cluster (agent.preset), so nothing is applied',
} as const

/** The broker wants another object than the running one and could not send it. */
const isSkipped = (action: ActiveAction): boolean =>
  action.do === 'run' && action.stack.digestEntry !== null && action.stack.digestEntry.id !== action.object.id
