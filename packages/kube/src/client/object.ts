// Identity, labels and owners of Kubernetes objects. Pure.

export type Fields = Record<string, unknown>

export interface OwnerReference {
  apiVersion: string
  kind: string
  name: string
  uid: string
  controller?: boolean
  blockOwnerDeletion?: boolean
}

export interface ManagedFieldsEntry {
  manager?: string
  operation?: string
  apiVersion?: string
  time?: string
  fieldsType?: string
  fieldsV1?: Fields
  subresource?: string
}

export interface ObjectMeta {
  name: string
  generateName?: string
  namespace?: string
  uid?: string
  resourceVersion?: string
  generation?: number
  creationTimestamp?: string
  deletionTimestamp?: string
  labels?: Record<string, string>
  annotations?: Record<string, string>
  finalizers?: string[]
  ownerReferences?: OwnerReference[]
  managedFields?: ManagedFieldsEntry[]
}

export interface KubeObject {
  apiVersion: string
  kind: string
  metadata: ObjectMeta
  spec?: Fields
  status?: Fields
  data?: Fields
  [field: string]: unknown
}

export interface Kind {
  apiVersion: string
  kind: string
}

export interface GroupKind {
  group: string
  kind: string
}

export interface ObjectRef extends Kind {
  namespace?: string | undefined
  name: string
}

/** Identity of an object without version, because one object is served under several versions. */
export interface Identity extends GroupKind {
  namespace: string
  name: string
}

export const groupOf = (apiVersion: string): string => (apiVersion.includes('/') ? apiVersion.slice(0, apiVersion.indexOf('/')) : '')

export const versionOf = (apiVersion: string): string => apiVersion.slice(apiVersion.indexOf('/') + 1)

export const apiVersionOf = (group: string, version: string): string => (group === '' ? version : `${group}/${version}`)

export const groupKindOf = (kind: Kind): GroupKind => ({ group: groupOf(kind.apiVersion), kind: kind.kind })

/** `Deployment.apps`, and `ConfigMap` for the core group: the notation of ApplySets and kubectl. */
export const groupKindText = ({ group, kind }: GroupKind): string => (group === '' ? kind : `${kind}.${group}`)

export const refOf = (object: KubeObject): ObjectRef => ({
  apiVersion: object.apiVersion,
  kind: object.kind,
  namespace: object.metadata.namespace,
  name: object.metadata.name,
})

export const identityOf = (object: KubeObject): Identity => ({
  ...groupKindOf(object),
  namespace: object.metadata.namespace ?? '',
  name: object.metadata.name,
})

/** Unique within one kind: `namespace/name`, or `name` for a cluster-scoped object. */
export const nameKey = (at: { namespace?: string | undefined; name: string }): string =>
  at.namespace ? `${at.namespace}/${at.name}` : at.name

/** Unique within a cluster. */
export const identityKey = (identity: Identity): string => `${groupKindText(identity)}|${identity.namespace}|${identity.name}`

/** For messages: `Deployment web/api`. */
export const describeRef = (ref: { kind: string; namespace?: string | undefined; name: string }): string => `${ref.kind} ${nameKey(ref)}`

export const controllerOf = (object: KubeObject): OwnerReference | undefined =>
  object.metadata.ownerReferences?.find((owner) => owner.controller === true)

export const isTerminating = (object: KubeObject): boolean => object.metadata.deletionTimestamp !== undefined

export function hasLabels(object: KubeObject, wanted: Readonly<Record<string, string>>): boolean {
  const labels = object.metadata.labels ?? {}
  return Object.entries(wanted).every(([key, value]) => labels[key] === value)
}

/** `a=1,b=2`: the notation of labelSelector. */
export const selectorOf = (labels: Readonly<Record<string, string>>): string =>
  Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join(',')
