// Has another hand changed a member? A dry run says what our apply would make of it, and only where that differs from what stands
// is it drift: status, defaults and fields of others are none. Tells places and managers, never values.
import { applyForm, mayHaveChanged } from '@brokkr/kube/apply-form.ts'
import type { WriteRules } from '@brokkr/kube/apply-object.ts'
import { ownerOf, parsePointer } from '@brokkr/kube/field-path.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { groupOf, type KubeObject, refOf } from '@brokkr/kube/object.ts'
import { API_RETRY, retrying } from '@brokkr/kube/retry.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { changedPaths } from './field-diff.ts'
import { FIELD_MANAGER, withRevisionMarksOf } from './marks.ts'
import type { VerifyStep } from './plan.ts'

/** One place of one object that another hand changed. */
export interface FieldChange {
  readonly group: string
  readonly kind: string
  readonly namespace?: string
  readonly name: string
  readonly path: string
  /** Who owns the place now; null: nobody, as after a deletion. Absent: not known. */
  readonly manager?: string | null
  readonly operation?: string
  readonly time?: string
}
export type Verified =
  | { readonly is: 'same'; readonly uid: string; readonly resourceVersion: string }
  /** Empty changes: only what we ourselves had written otherwise. */
  | { readonly is: 'differs'; readonly changes: readonly FieldChange[] }
  /** The dry run was refused or the object moved on meanwhile: the apply will tell. */
  | { readonly is: 'unsure' }

const changesPerObject = 50
const tries = 3

export async function verifyMember(deps: { kube: Kube; clock: Clock }, step: VerifyStep, rules: WriteRules): Promise<Verified> {
  const object = applyForm(withRevisionMarksOf(step.live, step.item.object))
  const { fieldManager, fieldValidation, signal } = rules
  const dryRun = () => deps.kube.apply(object, { fieldManager, fieldValidation, force: true, dryRun: true })
  let before: { readonly wanted: KubeObject; readonly live: KubeObject } | null = null
  try {
    for (let round = 0; round < tries; round++) {
      const wanted = await retrying(deps, API_RETRY, dryRun, signal)
      const { uid = '', resourceVersion = '' } = wanted.object.metadata
      if (!mayHaveChanged(wanted, fieldManager)) return { is: 'same', uid, resourceVersion }
      // The same before and after a look at what stands: only status has moved in between, as that of a busy object always does.
      if (before && isSameForm(before.wanted, wanted.object)) return compared(before.live, wanted.object)
      const live = await retrying(deps, API_RETRY, () => deps.kube.find(refOf(object)), signal)
      // A dry run carries the version it was made on: another one means that the two need not belong together.
      if (live?.metadata.resourceVersion === resourceVersion) return compared(live, wanted.object)
      before = live ? { wanted: wanted.object, live } : null
    }
  } catch {
    signal?.throwIfAborted()
  }
  return { is: 'unsure' }
}

const isSameForm = (a: KubeObject, b: KubeObject): boolean => a.metadata.uid === b.metadata.uid && changedPaths(a, b, 1).length === 0

function compared(live: KubeObject, wanted: KubeObject): Verified {
  const { uid = '', resourceVersion = '' } = live.metadata
  const paths = changedPaths(live, wanted, changesPerObject)
  if (paths.length === 0) return { is: 'same', uid, resourceVersion }
  return { is: 'differs', changes: paths.map((path) => changeOf(live, path)).filter(({ manager }) => manager !== FIELD_MANAGER) }
}

function changeOf(live: KubeObject, path: string): FieldChange {
  const owner = ownerOf(live, parsePointer(path) ?? [])
  const { manager, operation, time } = owner ?? {}
  return {
    ...placeOf(live),
    path,
    manager: manager ?? null,
    ...(operation ? { operation } : {}),
    ...(time ? { time } : {}),
  }
}

/** The whole object was taken away. */
export const goneChange = (object: KubeObject): FieldChange => ({ ...placeOf(object), path: '/', manager: null, operation: 'Delete' })

export const placeOf = ({ apiVersion, kind, metadata: { namespace, name } }: KubeObject) => ({
  group: groupOf(apiVersion),
  kind,
  ...(namespace ? { namespace } : {}),
  name,
})
