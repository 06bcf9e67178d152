// Remembers of each stack what the broker was last told, and turns the end of an attempt into the next telling: a row, perhaps
// an event, a line of the log, and when to try again.
import type { StackReport } from '@brokkr/contract/stream.ts'
import type { AgentId, StackId } from '@brokkr/contract/wire.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Level } from '../follow/levels.ts'
import type { Outbox } from '../reconcile/outbox.ts'
import type { Outcome } from '../reconcile/outcome.ts'
import {
  type Attempted,
  driftEventOf,
  driftKey,
  eventOf,
  failureText,
  heldRow,
  isWorthTelling,
  rowOf,
  type ToldFailure,
  timestamp,
} from '../reconcile/report.ts'
import type { StackState } from '../reconcile/stack-parents.ts'
import type { Turn } from './stack-queue.ts'

export type Acting = Extract<Level, { do: 'run' | 'remove' }>

interface Memory {
  failures: number
  /** Looked at by this process, so that its arrival was told. */
  hasBeenSeen: boolean
  told: ToldFailure | undefined
  /** Drift that was told and is still there. */
  drift: string | null
  inForce: Pick<StackState, 'deployment_object_id' | 'rev'> | null
}
export interface TellerDeps {
  readonly outbox: Outbox
  readonly agentId: AgentId
  readonly clock: Clock
  readonly log: Log
}

export class StackTeller {
  readonly #deps: TellerDeps
  readonly #memory = new Map<StackId, Memory>()

  constructor(deps: TellerDeps) {
    this.#deps = deps
  }

  /** What the cluster said at start. */
  found(stackId: StackId, state: StackState): void {
    this.#of(stackId).inForce = state
  }

  newLevel(stackId: StackId): void {
    this.#of(stackId).failures = 0
  }

  /** Only for what is new: a look that finds everything right must not make the stack seem unfinished. */
  underWay(level: Extract<Level, { do: 'run' }>): void {
    const { stack, object } = level
    if (isSkipped(level)) return
    const { failures, inForce } = this.#of(stack.stackId)
    if (failures > 0 || inForce?.deployment_object_id === object.id) return
    const at = { attempts: 1, observed_at: timestamp(this.#deps.clock.now()) }
    this.#deps.outbox.report({ stack_id: stack.stackId, rev: stack.rev, object_id: object.id, phase: 'pending', code: 'applying', ...at })
  }

  held(stackId: StackId, rev: number): void {
    const { inForce } = this.#of(stackId)
    const objectId = (inForce?.deployment_object_id ?? null) as Parameters<typeof heldRow>[2]
    this.#deps.outbox.report(heldRow(stackId, Math.max(rev, inForce?.rev ?? 0), objectId, this.#deps.clock.now()))
  }

  /** The agent is not ACTIVE, or only observes: what runs is left as it is. */
  resting(stackId: StackId, level: Level, code: keyof typeof restingTexts): void {
    if (level.do === 'nothing') return
    const { inForce } = this.#of(stackId)
    const rev = level.do === 'run' ? level.stack.rev : level.rev
    const object = level.do === 'run' ? level.object.id : level.do === 'remove' ? level.marker?.id : undefined
    this.#deps.outbox.report({
      stack_id: stackId,
      rev: Math.max(rev, inForce?.rev ?? 0),
      object_id: (object ?? inForce?.deployment_object_id ?? null) as StackReport['object_id'],
      phase: 'held',
      code,
      message: restingTexts[code],
      attempts: 0,
      observed_at: timestamp(this.#deps.clock.now()),
    })
  }

  ended(stackId: StackId, level: Acting, outcome: Outcome, { tookMs, fight }: Pick<Attempted, 'tookMs' | 'fight'>): Turn {
    const memory = this.#of(stackId)
    const done = { ...this.#attempted(stackId, level, outcome), tookMs, fight, isSkipped: isSkipped(level) }
    this.#log(done)
    if ('problem' in outcome) {
      memory.failures++
      const told = (pauseMs: number) => this.#tell({ ...done, retryAtMs: done.nowMs + pauseMs }, memory)
      return { next: 'retry', afterMs: outcome.problem.retryAfterMs, told }
    }
    this.#tell(done, memory)
    const inForce =
      level.do === 'run' && outcome.phase === 'applied' ? { deployment_object_id: level.object.id, rev: level.stack.rev } : null
    this.#memory.set(stackId, { failures: 0, hasBeenSeen: true, told: undefined, inForce, drift: memory.drift })
    if (outcome.phase === 'removed' && done.object === null) this.#memory.delete(stackId)
    return { next: 'done' }
  }

  forget(stackId: StackId): void {
    this.#memory.delete(stackId)
  }

  /** The object that is in force; null: none, as far as we know. */
  inForce(stackId: StackId): Memory['inForce'] {
    return this.#memory.get(stackId)?.inForce ?? null
  }

  #attempted(stackId: StackId, level: Acting, outcome: Outcome): Omit<Attempted, 'tookMs' | 'fight'> {
    const isRun = level.do === 'run'
    return {
      agentId: this.#deps.agentId,
      stackId,
      rev: isRun ? level.stack.rev : level.rev,
      object: isRun ? level.object : level.marker,
      isHeld: isRun && level.isHeld,
      attempt: this.#of(stackId).failures + 1,
      outcome,
      nowMs: this.#deps.clock.now(),
      retryAtMs: null,
    }
  }

  #tell(done: Attempted & { isSkipped: boolean }, memory: Memory): void {
    const { outbox } = this.#deps
    const isFailure = done.outcome.phase === 'failed'
    const event = eventOf(done, !memory.hasBeenSeen)
    const told = event !== null && (!isFailure || isWorthTelling(event, memory.told, done.nowMs)) ? event : null
    if (told) outbox.event(told)
    if (told && isFailure) memory.told = { text: failureText(told), atMs: done.nowMs }
    this.#tellDrift(done, memory)
    const isRemoved = done.outcome.phase === 'removed'
    // What runs is kept well, and the broker's own word about the revision it could not send stands.
    if (done.isSkipped) return
    outbox.report(rowOf(done), { after: isRemoved ? (told?.id ?? null) : null, isLast: isRemoved && done.object === null })
  }

  /** What is healed happens anew each time; what stays as it is, is told once. */
  #tellDrift(done: Attempted, memory: Memory): void {
    const event = driftEventOf(done)
    const drift = done.outcome.phase === 'applied' ? done.outcome.drift : null
    const key = drift && !drift.isHealed ? driftKey(drift.changes) : null
    if (event && (key === null || key !== memory.drift)) this.#deps.outbox.event(event)
    if (done.outcome.phase === 'applied') memory.drift = key
  }

  #log({ stackId, rev, attempt, outcome, tookMs }: Attempted): void {
    const { log } = this.#deps
    const fields = { stack_id: stackId, rev, attempt, ms: Math.round(tookMs), objects: outcome.objects.length }
    if ('problem' in outcome) {
      const { code, message } = outcome.problem
      log.warn(outcome.phase === 'failed' ? 'not applied' : 'not there yet', { ...fields, code, why: message })
    } else if (outcome.phase === 'removed') log.info('removed', fields)
    else if (outcome.isNew || outcome.objects.some(({ operation }) => operation !== 'unchanged')) log.info('applied', fields)
    else log.debug('unchanged', fields)
    if (outcome.phase === 'applied' && outcome.warnings.length > 0)
      log.warn('applied with warnings', { stack_id: stackId, rev, warnings: outcome.warnings })
  }

  #of(stackId: StackId): Memory {
    const known = this.#memory.get(stackId)
    if (known) return known
    const fresh: Memory = { failures: 0, hasBeenSeen: false, told: undefined, drift: null, inForce: null }
    this.#memory.set(stackId, fresh)
    return fresh
  }
}

const restingTexts = {
  paused: 'the agent is not ACTIVE, so nothing is changed in its cluster',
  observe: 'the agent only observes its cluster (agent.preset), so nothing is applied',
} as const

/** The broker wants another object than the one that runs, and could not send it. */
const isSkipped = (level: Acting): boolean => level.do === 'run' && level.stack.line !== null && level.stack.line.id !== level.object.id
