// The `conditions` of a status: one entry per type; the transition time changes only with the status. Pure.
import { rowsAt, textAt } from '../client/fields.ts'
import type { Fields } from '../client/object.ts'

export interface Condition {
  type: string
  status: 'True' | 'False' | 'Unknown'
  reason: string
  message: string
  observedGeneration?: number
  lastTransitionTime: string
}

export type ConditionNews = Omit<Condition, 'lastTransitionTime'>

const MESSAGE_MAX = 20_000

/** Returns a list with this condition set, or the same list if nothing differs, so that an unchanged status needs no write. */
export function setCondition(conditions: readonly Condition[], news: ConditionNews, nowMs: number): readonly Condition[] {
  const previous = conditions.find(({ type }) => type === news.type)
  const next: Condition = {
    ...news,
    message: clip(news.message),
    lastTransitionTime: previous?.status === news.status ? previous.lastTransitionTime : timeText(nowMs),
  }
  if (previous && sameCondition(previous, next)) return conditions
  return previous ? conditions.map((condition) => (condition === previous ? next : condition)) : [...conditions, next]
}

export const dropCondition = (conditions: readonly Condition[], type: string): readonly Condition[] =>
  conditions.some((condition) => condition.type === type) ? conditions.filter((condition) => condition.type !== type) : conditions

export const findCondition = (object: unknown, type: string): Fields | undefined =>
  rowsAt(object, 'status', 'conditions').find((row) => row['type'] === type)

/** `True`, `False`, `Unknown`, or undefined if the condition is absent. */
export const conditionStatus = (object: unknown, type: string): string | undefined => textAt(findCondition(object, type), 'status')

export const isTrue = (object: unknown, type: string): boolean => conditionStatus(object, type) === 'True'

/** Kubernetes times have whole seconds. */
export const timeText = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`

const clip = (text: string): string => (text.length > MESSAGE_MAX ? `${text.slice(0, MESSAGE_MAX - 3)}...` : text)

const sameCondition = (a: Condition, b: Condition): boolean =>
  a.status === b.status && a.reason === b.reason && a.message === b.message && a.observedGeneration === b.observedGeneration
