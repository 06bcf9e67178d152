// Ownership metadata on every managed object: agent, stack, deployment object, and a keyed hash of the desired content. The hash excludes
// the metadata of the deployment object, so a new one rewrites only changed objects. Pure.
import { createHmac, type KeyObject } from 'node:crypto'
import { encodeJson, type KubeObject, PART_OF_LABEL } from '@brokkr/kube'

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
/** Field managers of v1 agents, whose fields are taken over at the first apply. */
export const EARLIER_MANAGERS = ['brokkr-controller']

export interface OwnershipMetadata {
  readonly stackId: string
  readonly agentId: string
  readonly applySetId: string
  readonly objectId: string
  readonly checksum: string
  /** Keyed, because a plain hash of a Secret could be guessed. */
  readonly hashKey: KeyObject
}
export interface MarkedObject {
  readonly object: KubeObject
  readonly hash: string
  /** Keys of the manifest that were overwritten. */
  readonly overwritten: readonly string[]
}

export function addOwnershipMetadata(object: KubeObject, marks: OwnershipMetadata): MarkedObject {
  const stable = withMarks(object, toOwnershipLabels(marks), { [stackAnnotation]: marks.stackId, [OWNER_LABEL]: marks.agentId })
  const hash = computeHash(marks.hashKey, without(stable))
  const annotations = {
    [OBJECT_LABEL]: marks.objectId,
    [HASH_ANNOTATION]: hash,
    ...Object.fromEntries(checksumAnnotations.map((key) => [key, marks.checksum])),
  }
  return { object: withMarks(stable, { [OBJECT_LABEL]: marks.objectId }, annotations), hash, overwritten: reservedIn(object) }
}

/** Copies the metadata of the live deployment object, so that it does not count as a difference. */
export function copyVersionMetadata(live: KubeObject, object: KubeObject): KubeObject {
  const pickEntries = (from: Readonly<Record<string, string>> | undefined, keys: readonly string[]) =>
    Object.fromEntries(keys.flatMap((key) => (from?.[key] === undefined ? [] : [[key, from[key]] as const])))
  return withMarks(
    object,
    pickEntries(live.metadata.labels, [OBJECT_LABEL]),
    pickEntries(live.metadata.annotations, [OBJECT_LABEL, ...checksumAnnotations]),
  )
}

/** Labels that a live member must have before it is changed or deleted. */
export const toOwnershipLabels = (marks: Pick<OwnershipMetadata, 'stackId' | 'agentId' | 'applySetId'>): Record<string, string> => ({
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

/** Reserved metadata in a manifest must not change the hash. */
function without(object: KubeObject): KubeObject {
  const { labels: given = {}, annotations: noted = {} } = object.metadata
  if (!(OBJECT_LABEL in given) && !revisionAnnotations.some((key) => key in noted)) return object
  const { [OBJECT_LABEL]: _object, ...labels } = given
  const annotations = { ...noted }
  for (const key of revisionAnnotations) delete annotations[key]
  return { ...object, metadata: { ...object.metadata, labels, annotations } }
}

const computeHash = (key: KeyObject, object: KubeObject): string => createHmac('sha256', key).update(canonical(object)).digest('hex')

/** JSON with sorted keys, written in one pass because it runs for every object of a set. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return encodeJson(value) ?? 'null'
  const fields = value as Record<string, unknown>
  let text = ''
  for (const key of sortedKeys(fields))
    if (fields[key] !== undefined) text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${canonical(fields[key])}`
  return `{${text}}`
}

/** Most maps are sorted already and are not copied. */
function sortedKeys(fields: Record<string, unknown>): string[] {
  const keys = Object.keys(fields)
  for (let at = 1; at < keys.length; at++) if (keys[at - 1]! > keys[at]!) return keys.toSorted()
  return keys
}
