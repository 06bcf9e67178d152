// Application of Argo CD. It is ready only when the comparison that says Synced is of the present source and newer than the last sync.
import { isDeepStrictEqual } from 'node:util'
import { fieldsAt, type KubeObject, textAt, valueAt } from '@brokkr/kube'
import { type AppAdapter, nonEmptyText, notReported, type RevisionFrom, toReading, trimTo } from './adapter.ts'

export const application: AppAdapter = {
  group: 'argoproj.io',
  kind: 'Application',
  trim: (object) => ({
    ...trimTo(object, { spec: ['source', 'sources'], status: ['sync', 'health', 'reconciledAt', 'operationState'] }),
    ...(object['operation'] === undefined ? {} : { operation: {} }),
  }),
  read(object, from) {
    if (Object.keys(object.status ?? {}).length === 0) return notReported
    return toReading(object, { revision: revisionOf(object, from), isReady: isHealthy(object) && isComparisonCurrent(object) })
  },
}

function revisionOf(object: KubeObject, from: RevisionFrom): string | null {
  const revisions = valueAt(object.status, 'sync', 'revisions')
  if (!Array.isArray(revisions) || revisions.length === 0) return nonEmptyText(object.status, 'sync', 'revision')
  if (from.source !== undefined) return nonEmptyText(revisions, from.source)
  return revisions.map(String).join(',') || null
}

function isHealthy(object: KubeObject): boolean {
  const phase = textAt(object.status, 'operationState', 'phase')
  return (
    textAt(object.status, 'sync', 'status') === 'Synced' &&
    textAt(object.status, 'health', 'status') === 'Healthy' &&
    object['operation'] === undefined &&
    (phase === undefined || phase === 'Succeeded')
  )
}

function isComparisonCurrent(object: KubeObject): boolean {
  const reconciledMs = Date.parse(textAt(object.status, 'reconciledAt') ?? '')
  const finishedMs = Date.parse(textAt(object.status, 'operationState', 'finishedAt') ?? '')
  // A comparison from before the end of the sync describes the state before it.
  if (!Number.isNaN(finishedMs) && !(reconciledMs >= finishedMs)) return false
  const compared = fieldsAt(object.status, 'sync', 'comparedTo')
  return (['source', 'sources'] as const).every((name) => isDeepStrictEqual(dropEmpty(compared?.[name]), dropEmpty(object.spec?.[name])))
}

/** Argo CD writes empty values on one side only. */
function dropEmpty(value: unknown): unknown {
  if (Array.isArray(value)) return value.length === 0 ? undefined : value.map(dropEmpty)
  if (typeof value !== 'object' || value === null) return value === '' || value === null || value === false ? undefined : value
  const entries = Object.entries(value)
    .map(([key, item]) => [key, dropEmpty(item)] as const)
    .filter(([, item]) => item !== undefined)
  return entries.length === 0 ? undefined : Object.fromEntries(entries)
}
