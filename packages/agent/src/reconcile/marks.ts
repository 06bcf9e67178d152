// What the agent writes on every object it manages, so that it is known as ours later: whose, of which stack, of which revision,
// and a keyed hash of what was wanted. The hash covers the content and the marks that stay, never the revision, so that a new
// revision rewrites only what it changes. Pure.
import { createHmac, type KeyObject } from 'node:crypto'
import { PART_OF_LABEL } from '@brokkr/kube/applyset.ts'
import { encodeJson } from '@brokkr/kube/json.ts'
import type { KubeObject } from '@brokkr/kube/object.ts'

export const STACK_LABEL = 'brokkr.io/stack'
export const OWNER_LABEL = 'brokkr.io/owner-id'
export const OBJECT_LABEL = 'brokkr.io/deployment-object-id'
export const HASH_ANNOTATION = 'brokkr.io/applied-hash'
const stackAnnotation = 'k8s.brokkr.io/stack'
const checksumAnnotations = ['k8s.brokkr.io/deployment-checksum', 'k8s.brokkr.io/last-config-applied'] as const

export const ADOPT = 'brokkr.io/adopt'
export const PRUNE = { annotation: 'brokkr.io/prune', value: 'disabled' }
export const REPLACE = 'brokkr.io/replace'
export const IGNORE_FIELDS = 'brokkr.io/ignore-fields'

export const FIELD_MANAGER = 'brokkr-agent'
/** Fields that agents of the first version wrote become ours at the first apply. */
export const EARLIER_MANAGERS = ['brokkr-controller']

export interface Marks {
  readonly stackId: string
  readonly agentId: string
  readonly applySetId: string
  readonly objectId: string
  readonly checksum: string
  /** Keyed: a plain hash of a Secret could be guessed from outside. */
  readonly hashKey: KeyObject
}
export interface Stamped {
  readonly object: KubeObject
  readonly hash: string
  /** Keys of the manifest that ours took the place of. */
  readonly overwritten: readonly string[]
}

export function stamp(object: KubeObject, marks: Marks): Stamped {
  const stable = withMarks(object, stableLabels(marks), { [stackAnnotation]: marks.stackId, [OWNER_LABEL]: marks.agentId })
  const hash = hashOf(marks.hashKey, without(stable))
  const annotations = {
    [OBJECT_LABEL]: marks.objectId,
    [HASH_ANNOTATION]: hash,
    ...Object.fromEntries(checksumAnnotations.map((key) => [key, marks.checksum])),
  }
  return { object: withMarks(stable, { [OBJECT_LABEL]: marks.objectId }, annotations), hash, overwritten: reservedIn(object) }
}

/** The object as it would look had the live member's revision wanted it: marks of a revision are no difference. */
export function withRevisionMarksOf(live: KubeObject, object: KubeObject): KubeObject {
  const kept = (from: Readonly<Record<string, string>> | undefined, keys: readonly string[]) =>
    Object.fromEntries(keys.flatMap((key) => (from?.[key] === undefined ? [] : [[key, from[key]] as const])))
  return withMarks(
    object,
    kept(live.metadata.labels, [OBJECT_LABEL]),
    kept(live.metadata.annotations, [OBJECT_LABEL, ...checksumAnnotations]),
  )
}

/** Labels that every live member must carry before it may be touched as ours. */
export const stableLabels = (marks: Pick<Marks, 'stackId' | 'agentId' | 'applySetId'>): Record<string, string> => ({
  [STACK_LABEL]: marks.stackId,
  [OWNER_LABEL]: marks.agentId,
  [PART_OF_LABEL]: marks.applySetId,
})

const reservedLabels = [STACK_LABEL, OWNER_LABEL, OBJECT_LABEL, PART_OF_LABEL]
const reservedAnnotations = [stackAnnotation, OWNER_LABEL, OBJECT_LABEL, HASH_ANNOTATION, ...checksumAnnotations]

function reservedIn({ metadata }: KubeObject): string[] {
  const labels = reservedLabels.filter((key) => key in (metadata.labels ?? {})).map((key) => `label ${key}`)
  return [...labels, ...reservedAnnotations.filter((key) => key in (metadata.annotations ?? {})).map((key) => `annotation ${key}`)]
}

const withMarks = (object: KubeObject, labels: Record<string, string>, annotations: Record<string, string>): KubeObject => ({
  ...object,
  metadata: {
    ...object.metadata,
    labels: { ...object.metadata.labels, ...labels },
    annotations: { ...object.metadata.annotations, ...annotations },
  },
})

const revisionAnnotations = [OBJECT_LABEL, HASH_ANNOTATION, ...checksumAnnotations]

/** A manifest that carries a revision's marks itself must not make the hash depend on them. Hardly any does. */
function without(object: KubeObject): KubeObject {
  const { labels: given = {}, annotations: noted = {} } = object.metadata
  if (!(OBJECT_LABEL in given) && !revisionAnnotations.some((key) => key in noted)) return object
  const { [OBJECT_LABEL]: _object, ...labels } = given
  const annotations = { ...noted }
  for (const key of revisionAnnotations) delete annotations[key]
  return { ...object, metadata: { ...object.metadata, labels, annotations } }
}

const hashOf = (key: KeyObject, object: KubeObject): string => createHmac('sha256', key).update(canonical(object)).digest('hex')

/** JSON with sorted keys: their order in a manifest means nothing. Written at once and piece by piece, because it is done for every object
 *  of a set. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return encodeJson(value) ?? 'null'
  const fields = value as Record<string, unknown>
  let text = ''
  for (const key of sortedKeys(fields))
    if (fields[key] !== undefined) text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${canonical(fields[key])}`
  return `{${text}}`
}

/** Many maps are written in order: then nothing is copied. */
function sortedKeys(fields: Record<string, unknown>): string[] {
  const keys = Object.keys(fields)
  for (let at = 1; at < keys.length; at++) if (keys[at - 1]! > keys[at]!) return keys.toSorted()
  return keys
}
