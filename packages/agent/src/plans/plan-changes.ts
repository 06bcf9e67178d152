// Entries of a plan result within the limits of the report: number of entries, length of texts and values, bytes in all. Pure.
import { type NewPlanResult, type PlanChange, type PlanField, planChangesMax, planFieldsMax } from '@brokkr/contract/plans/plan.ts'
import { encodeJson, groupOf, type KubeObject } from '@brokkr/kube'
import type { MaskedChange } from '../reconcile/plan/mask.ts'

/** What one object of the plan leads to. */
export type ObjectPlan = { readonly change: 'unchanged' } | PlanChange

const textMax = 400
const valueMax = 1_000
const bytesMax = 900 * 1024

export const toChange = (
  { apiVersion, kind, metadata }: Pick<KubeObject, 'apiVersion' | 'kind' | 'metadata'>,
  change: PlanChange['change'],
  more: { fields?: PlanField[]; guard?: string | null; message?: string } = {},
): PlanChange => ({
  group: groupOf(apiVersion),
  kind,
  namespace: metadata.namespace ?? null,
  name: metadata.name,
  change,
  fields: (more.fields ?? []).slice(0, planFieldsMax),
  guard: more.guard === undefined || more.guard === null ? null : cut(more.guard, textMax),
  message: more.message === undefined ? null : cut(more.message, textMax),
})

/** Lists and maps are shown as JSON text, so that no key of theirs is a key of the report. */
export const toField = ({ path, before, after }: MaskedChange, manager: string | null): PlanField => ({
  path: cut(path, valueMax),
  ...(before === undefined ? {} : { before: toShownValue(before) }),
  ...(after === undefined ? {} : { after: toShownValue(after) }),
  manager: manager === null ? null : cut(manager, 200),
})

function toShownValue(value: unknown): unknown {
  if (value === null || typeof value === 'boolean' || (typeof value === 'number' && Number.isFinite(value))) return value
  return cut(typeof value === 'string' ? value : (encodeJson(value) ?? ''), valueMax)
}

/** The broker refuses NUL and lone surrogates in any text. */
function cut(text: string, max: number): string {
  const clean = text.replaceAll('\0', '\u{FFFD}')
  return (clean.length <= max ? clean : `${clean.slice(0, max)}…[cut]`).toWellFormed()
}

/** Counts every object and lists those that change, as many as fit. */
export function toAnswer(plans: readonly ObjectPlan[], reason: string | null): NewPlanResult {
  const summary = { create: 0, update: 0, delete: 0, unchanged: 0, denied: 0, unchecked: 0 }
  for (const { change } of plans) summary[change] += 1
  const changes: PlanChange[] = []
  let bytes = 0
  for (const plan of plans) {
    if (plan.change === 'unchanged') continue
    if (changes.length >= planChangesMax) break
    const entry = bytes + sizeOf(plan) <= bytesMax ? plan : { ...plan, fields: [] }
    bytes += sizeOf(entry)
    if (bytes > bytesMax) break
    changes.push(entry)
  }
  return { state: 'answered', reason: reason === null ? null : cut(reason, textMax), summary, changes }
}

const sizeOf = (entry: PlanChange): number => Buffer.byteLength(JSON.stringify(entry))

/** Nothing is known about the objects. */
export const toRefusal = (reason: string): NewPlanResult => ({ ...toAnswer([], cut(reason, textMax)), state: 'refused' })
