// What an adapter is: it reads revision and readiness out of an application object. Pure.
import type { AppRef } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import { fieldsAt, findCondition, flagAt, type KubeObject, numberAt, textAt } from '@brokkr/kube'

export type RevisionFrom = NonNullable<AppRef['revisionFrom']>

export interface AppReading {
  readonly revision: string | null
  readonly ready: boolean
  /** Names the rule that keeps an object from being ready; null for an object that is simply not ready yet. */
  readonly error: string | null
}

export interface AppAdapter {
  readonly group: string
  readonly kind: string
  read(object: KubeObject, from: RevisionFrom): AppReading
  /** What `read` needs of the object; the rest is not kept in memory. */
  trim(object: KubeObject): KubeObject
}

export const notReported: AppReading = { revision: null, ready: false, error: null }

/**
 * The rules that hold for every kind, after the kind's own status was found: `isReady` is the kind's condition. A broken rule makes the
 * object not ready and is named; ready without a revision is an error too.
 */
export function toReading(object: KubeObject, input: { revision: string | null; isReady: boolean; error?: string | null }): AppReading {
  const error = brokenRule(object) ?? input.error ?? null
  if (error !== null) return { revision: input.revision, ready: false, error }
  if (input.isReady && (input.revision ?? '') === '')
    return { revision: null, ready: false, error: 'ready without a revision: set appRef.revisionFrom' }
  return { revision: input.revision, ready: input.isReady, error: null }
}

function brokenRule(object: KubeObject): string | null {
  if (object.metadata.deletionTimestamp !== undefined) return 'the object is being deleted'
  const generation = object.metadata.generation ?? 0
  const observed = numberAt(object.status, 'observedGeneration')
  if (observed !== undefined && observed < generation)
    return `status.observedGeneration ${observed} is behind metadata.generation ${generation}`
  const readyObserved = numberAt(findCondition(object, 'Ready'), 'observedGeneration')
  if (readyObserved !== undefined && readyObserved < generation)
    return `the Ready condition observed generation ${readyObserved}, the object has ${generation}`
  return flagAt(object.spec, 'suspend') ? 'the object is suspended' : null
}

/** Metadata without managed fields and annotations. */
export function trimMetadata({ metadata }: KubeObject): KubeObject['metadata'] {
  const { managedFields: _managedFields, annotations: _annotations, ...kept } = metadata
  return kept
}

/** The named parts of `spec` and `status`, and trimmed metadata. */
export function trimTo(object: KubeObject, keep: { spec: readonly string[]; status: readonly string[] }): KubeObject {
  const pick = (part: 'spec' | 'status') => {
    const fields = fieldsAt(object, part)
    return fields && Object.fromEntries(keep[part].filter((name) => name in fields).map((name) => [name, fields[name]]))
  }
  const [spec, status] = [pick('spec'), pick('status')]
  return {
    apiVersion: object.apiVersion,
    kind: object.kind,
    metadata: trimMetadata(object),
    ...(spec ? { spec } : {}),
    ...(status ? { status } : {}),
  }
}

export const nonEmptyText = (root: unknown, ...path: readonly (string | number)[]): string | null => textAt(root, ...path) || null
