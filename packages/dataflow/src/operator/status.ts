// What a flow's status says of its processors: the last thing they told, for as long as nothing newer came. Pure. Every number is an
// observation; what was observed is kept when nobody answers, and then marked as old.
import type { Blocked, Counters, LagReport, Progress } from '@brokkr/contract/dataflow/progress.ts'
import { type Condition, setCondition } from '@brokkr/kube/conditions.ts'

export interface ObservedStatus extends Partial<Counters> {
  readonly position?: string
  readonly lag?: LagReport
  readonly blocked?: Blocked
  readonly appliedReset?: string
  readonly appliedRewind?: string
  readonly progress?: { readonly observedAt: string; readonly pod: string; readonly version: string; readonly stale: boolean }
  readonly conditions: readonly Condition[]
}

/** An answer older than this tells nothing of the present. */
export const staleMs = 90_000

/** `answers`: one per processor that was reached just now. */
export function observedStatus(before: ObservedStatus, answers: readonly Progress[], nowMs: number): ObservedStatus {
  const first = answers.toSorted((left, right) => right.processedCount - left.processedCount)[0]
  return first === undefined ? unanswered(before, nowMs) : answered(before, first, answers, nowMs)
}

function unanswered(before: ObservedStatus, nowMs: number): ObservedStatus {
  const { progress } = before
  if (progress === undefined || nowMs - Date.parse(progress.observedAt) <= staleMs) return before
  const message = `pod ${progress.pod} has not answered since ${progress.observedAt}`
  const flowing = { type: 'Flowing', status: 'Unknown', reason: 'Stale', message } as const
  return { ...before, progress: { ...progress, stale: true }, conditions: setCondition(before.conditions, flowing, nowMs) }
}

function answered(before: ObservedStatus, first: Progress, answers: readonly Progress[], nowMs: number): ObservedStatus {
  const { pod, version, appliedReset, appliedRewind } = first
  const blocked = answers.find((each) => each.blocked !== undefined)?.blocked
  const { blocked: _old, ...kept } = before
  let { conditions } = before
  conditions = setCondition(conditions, { type: 'Flowing', ...worst(answers.map(({ flowing }) => flowing)) }, nowMs)
  conditions = setCondition(conditions, { type: 'ExactlyOnce', ...worst(answers.map(({ exactlyOnce }) => exactlyOnce)) }, nowMs)
  return {
    ...kept,
    ...countersOf(before, first),
    position: answers
      .map(({ position }) => position)
      .filter(Boolean)
      .toSorted()
      .join(' '),
    lag: lagOf(answers),
    ...(blocked === undefined ? {} : { blocked }),
    ...(appliedReset === undefined ? {} : { appliedReset }),
    ...(appliedRewind === undefined ? {} : { appliedRewind }),
    progress: { observedAt: new Date(nowMs).toISOString(), pod, version, stale: false },
    conditions,
  }
}

/** Readers of one group share their counters, and each tells them as it saved them last: of one count the furthest is the newest. */
function countersOf(before: ObservedStatus, told: Progress): Partial<Counters> {
  const isOlder = before.countersSince === told.countersSince && (before.processedCount ?? 0) > told.processedCount
  if (isOlder) return {}
  const { readCount, processedCount, writtenCount, droppedCount, errorCount, countersSince, lastProcessedTime } = told
  const counters = { readCount, processedCount, writtenCount, droppedCount, errorCount, countersSince }
  return lastProcessedTime === undefined ? counters : { ...counters, lastProcessedTime }
}

function lagOf(answers: readonly Progress[]): LagReport {
  const known = (part: keyof LagReport): number[] => answers.flatMap(({ lag }) => lag[part] ?? [])
  const sum = (of: readonly number[]): number => of.reduce((total, each) => total + each, 0)
  const [messages, seconds, bytes] = [known('messages'), known('seconds'), known('bytes')]
  return {
    ...(messages.length === 0 ? {} : { messages: sum(messages) }),
    ...(seconds.length === 0 ? {} : { seconds: Math.max(...seconds) }),
    ...(bytes.length === 0 ? {} : { bytes: sum(bytes) }),
  }
}

const order = ['False', 'Unknown', 'True'] as const

/** One processor in trouble is trouble for the flow. */
const worst = (states: readonly Progress['flowing'][]): Progress['flowing'] =>
  states.toSorted((left, right) => order.indexOf(left.status) - order.indexOf(right.status))[0]!
