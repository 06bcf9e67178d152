// Compares a member with the result of a dry run of its apply. Only a difference is drift; status, defaults and fields of other managers
// are not. Reports paths and managers, never values.
import {
  API_RETRY,
  findFieldOwner,
  groupOf,
  type Kube,
  type KubeObject,
  mayHaveChanged,
  parsePointer,
  refOf,
  retrying,
  toApplyPayload,
  type WriteRules,
} from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { findChangedPaths } from '../plan/field-diff.ts'
import { copyVersionMetadata, FIELD_MANAGER } from '../plan/ownership-metadata.ts'
import type { VerifyStep } from '../plan/plan.ts'

/** One path of an object that another writer changed. */
export interface FieldChange {
  readonly group: string
  readonly kind: string
  readonly namespace?: string
  readonly name: string
  readonly path: string
  /** Field manager of the path; null: none, for example after a deletion. Absent: unknown. */
  readonly manager?: string | null
  readonly operation?: string
  readonly time?: string
}
export type MemberComparison =
  | { readonly is: 'same'; readonly uid: string; readonly resourceVersion: string }
  /** Empty changes: only fields that this agent wrote differ. */
  | { readonly is: 'differs'; readonly changes: readonly FieldChange[] }
  /** The dry run was refused or the object changed meanwhile: the apply decides. */
  | { readonly is: 'unsure' }

const changesPerObject = 50
const tries = 3

export async function compareMember(deps: { kube: Kube; clock: Clock }, step: VerifyStep, rules: WriteRules): Promise<MemberComparison> {
  const object = toApplyPayload(copyVersionMetadata(step.live, step.item.object))
  const { fieldManager, fieldValidation, signal } = rules
  const dryRun = () => deps.kube.apply(object, { fieldManager, fieldValidation, force: true, dryRun: true })
  let before: { readonly wanted: KubeObject; readonly live: KubeObject } | null = null
  try {
    for (let round = 0; round < tries; round++) {
      const predicted = await retrying(deps, API_RETRY, dryRun, signal)
      const { uid = '', resourceVersion = '' } = predicted.object.metadata
      if (!mayHaveChanged(predicted, fieldManager)) return { is: 'same', uid, resourceVersion }
      // Equal before and after: only the status changed in between, as it does on a busy object.
      if (before && isSameForm(before.wanted, predicted.object)) return toComparison(before.live, predicted.object)
      const live = await retrying(deps, API_RETRY, () => deps.kube.find(refOf(object)), signal)
      // A dry run returns the version it is based on: another version means that the two cannot be compared.
      if (live?.metadata.resourceVersion === resourceVersion) return toComparison(live, predicted.object)
      before = live ? { wanted: predicted.object, live } : null
    }
  } catch {
    signal?.throwIfAborted()
  }
  return { is: 'unsure' }
}

const isSameForm = (a: KubeObject, b: KubeObject): boolean => a.metadata.uid === b.metadata.uid && findChangedPaths(a, b, 1).length === 0

function toComparison(live: KubeObject, predicted: KubeObject): MemberComparison {
  const { uid = '', resourceVersion = '' } = live.metadata
  const paths = findChangedPaths(live, predicted, changesPerObject)
  if (paths.length === 0) return { is: 'same', uid, resourceVersion }
  return { is: 'differs', changes: paths.map((path) => toChange(live, path)).filter(({ manager }) => manager !== FIELD_MANAGER) }
}

function toChange(live: KubeObject, path: string): FieldChange {
  const owner = findFieldOwner(live, parsePointer(path) ?? [])
  const { manager, operation, time } = owner ?? {}
  return {
    ...toChangedObject(live),
    path,
    manager: manager ?? null,
    ...(operation ? { operation } : {}),
    ...(time ? { time } : {}),
  }
}

/** The whole object was deleted. */
export const toDeletionChange = (object: KubeObject): FieldChange => ({
  ...toChangedObject(object),
  path: '/',
  manager: null,
  operation: 'Delete',
})

export const toChangedObject = ({ apiVersion, kind, metadata: { namespace, name } }: KubeObject) => ({
  group: groupOf(apiVersion),
  kind,
  ...(namespace ? { namespace } : {}),
  name,
})
