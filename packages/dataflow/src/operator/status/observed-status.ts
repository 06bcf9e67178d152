// Status of a flow from its processors' progress. Pure. Every number is an observation; the last one is kept while no processor responds,
// and then reported as stale.
import { type Blocked, type Counters, type LagReport, type Progress, sourceConditionTypes } from '@brokkr/contract/dataflow/progress.ts'
import { type Condition, dropCondition, setCondition } from '@brokkr/kube'

export interface ObservedStatus extends Partial<Counters> {
  readonly position?: string
  readonly processedPerSecond?: number
  readonly lag?: LagReport
  readonly blocked?: Blocked
  readonly appliedReset?: string
  readonly appliedRewind?: string
  readonly progress?: { readonly observedAt: string; readonly pod: string; readonly version: string; readonly stale: boolean }
  readonly conditions: readonly Condition[]
}

/** An older response is stale. */
export const staleMs = 90_000

/** `answers`: one per processor that responded now. */
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
  conditions = withSourceConditions(conditions, answers, nowMs)
  return {
    ...kept,
    ...mergeCounters(before, first),
    position: answers
      .map(({ position }) => position)
      .filter(Boolean)
      .toSorted()
      .join(' '),
    lag: mergeLag(answers),
    ...(blocked === undefined ? {} : { blocked }),
    ...(appliedReset === undefined ? {} : { appliedReset }),
    ...(appliedRewind === undefined ? {} : { appliedRewind }),
    progress: { observedAt: new Date(nowMs).toISOString(), pod, version, stale: false },
    conditions,
  }
}

/** A condition that no processor reports is removed. */
function withSourceConditions(before: readonly Condition[], answers: readonly Progress[], nowMs: number): readonly Condition[] {
  const reported = answers.flatMap(({ sourceConditions }) => sourceConditions ?? [])
  let conditions = before
  for (const type of sourceConditionTypes) {
    const message = reported.find((each) => each.type === type)?.message
    conditions =
      message === undefined
        ? dropCondition(conditions, type)
        : setCondition(conditions, { type, status: 'True', reason: type, message }, nowMs)
  }
  return conditions
}

/** Processors of one group share counters, and each reports its last save: the highest value is the newest. */
function mergeCounters(before: ObservedStatus, told: Progress): Partial<Counters> {
  const isOlder = before.countersSince === told.countersSince && (before.processedCount ?? 0) > told.processedCount
  if (isOlder) return {}
  const { readCount, processedCount, writtenCount, droppedCount, errorCount, countersSince, lastProcessedTime } = told
  const counters = { readCount, processedCount, writtenCount, droppedCount, errorCount, countersSince }
  return lastProcessedTime === undefined ? counters : { ...counters, lastProcessedTime }
}

function mergeLag(answers: readonly Progress[]): LagReport {
  const listReported = (part: keyof LagReport): number[] => answers.flatMap(({ lag }) => lag[part] ?? [])
  const sum = (of: readonly number[]): number => of.reduce((total, each) => total + each, 0)
  const [messages, seconds, bytes] = [listReported('messages'), listReported('seconds'), listReported('bytes')]
  return {
    ...(messages.length === 0 ? {} : { messages: sum(messages) }),
    ...(seconds.length === 0 ? {} : { seconds: Math.max(...seconds) }),
    ...(bytes.length === 0 ? {} : { bytes: sum(bytes) }),
  }
}

const order = ['False', 'Unknown', 'True'] as const

/** One failing processor makes the flow fail. */
const worst = (states: readonly Progress['flowing'][]): Progress['flowing'] =>
  states.toSorted((left, right) => order.indexOf(left.status) - order.indexOf(right.status))[0]!
