// What one step of a plan would do, by a dry run. For members of the stack the changed fields are shown with masked values; of other
// objects only the intended change, never whether they exist.

import { planFieldsMax } from '@brokkr/contract/plans/plan.ts'
import {
  classifyFailure,
  dryRunObject,
  type Failure,
  findFieldOwner,
  groupKindOf,
  groupKindText,
  type Kube,
  type KubeObject,
  parsePointer,
  READ_RETRY,
  refOf,
  retrying,
  toApplyPayload,
  toPointer,
  type WriteRules,
} from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { diffMasked } from '../reconcile/plan/mask.ts'
import { copyVersionMetadata, HASH_ANNOTATION } from '../reconcile/plan/ownership-metadata.ts'
import type { Step } from '../reconcile/plan/plan.ts'
import { toProblem } from '../reconcile/problem.ts'
import { type ObjectPlan, toChange, toField } from './plan-changes.ts'

export interface CheckDeps {
  /** Permits reads and dry runs only. */
  readonly kube: Kube
  readonly clock: Clock
  readonly rules: WriteRules
  /** Random per plan, so that masked values compare within this result only. */
  readonly planKey: Buffer
  /** Namespaces and kinds that the plan itself creates. */
  readonly born: { readonly namespaces: ReadonlySet<string>; readonly kinds: ReadonlySet<string> }
  /** Removes Secret values from an error text. */
  readonly mask: (text: string) => string
}

export async function checkStep(deps: CheckDeps, step: Step): Promise<ObjectPlan> {
  const { object } = step.desired
  if (step.do === 'hold') return toChange(object, 'unchecked', { message: 'another writer is deleting it' })
  if (step.do === 'unchanged') return { change: 'unchanged' }
  return step.do === 'create' ? checkCreate(deps, step) : checkMember(deps, step)
}

/** Failures that only an existing object causes: the apply decides whether it may be taken over. */
const existenceCodes: ReadonlySet<Failure['code']> = new Set(['foreign_object', 'field_conflict', 'immutable_field', 'conflict'])

async function checkCreate(deps: CheckDeps, { item, desired }: Extract<Step, { do: 'create' }>): Promise<ObjectPlan> {
  const trial = await dryRunObject(deps, item, deps.rules)
  if (trial.found !== 'failure' || existenceCodes.has(trial.failure.code)) return toChange(desired.object, 'create')
  return toFailedChange(deps, desired.object, trial.failure)
}

/** Failures that say nothing about the object. */
const transientCodes: ReadonlySet<Failure['code']> = new Set(['unavailable', 'namespace', 'crd', 'gone'])

function toFailedChange({ born, mask }: CheckDeps, object: KubeObject, failure: Failure): ObjectPlan {
  const isNamespaceBorn = failure.code === 'missing_namespace' && born.namespaces.has(object.metadata.namespace ?? '')
  const isKindBorn = failure.code === 'missing_kind' && born.kinds.has(groupKindText(groupKindOf(object)))
  if (isNamespaceBorn) return toChange(object, 'unchecked', { message: 'its namespace comes with this plan; checked while applying' })
  if (isKindBorn) return toChange(object, 'unchecked', { message: 'its kind comes with this plan; checked while applying' })
  const message = mask(toProblem(failure, refOf(object)).message)
  return toChange(object, transientCodes.has(failure.code) ? 'unchecked' : 'denied', { message })
}

async function checkMember(deps: CheckDeps, step: Extract<Step, { do: 'update' | 'verify' }>): Promise<ObjectPlan> {
  const { object } = step.desired
  const live = await readLive(deps, object)
  // Deleted since the members were listed.
  if (live === 'absent') return toChange(object, 'create')
  const isReplaced = step.item.replace === true
  try {
    const { fieldManager, fieldValidation, signal } = deps.rules
    const payload = toApplyPayload(live === 'unreadable' ? object : copyVersionMetadata(live, object))
    const dryRun = () => deps.kube.apply(payload, { fieldManager, fieldValidation, force: true, dryRun: true })
    const { object: predicted } = await retrying(deps, READ_RETRY, dryRun, signal)
    if (live === 'unreadable') return step.do === 'verify' ? { change: 'unchanged' } : toChange(object, 'update')
    const fields = listFields(live, predicted, deps.planKey)
    return fields.length === 0 ? { change: 'unchanged' } : toChange(object, 'update', { fields })
  } catch (error) {
    deps.rules.signal?.throwIfAborted()
    const failure = classifyFailure(error)
    if (failure.code === 'immutable_field' && isReplaced) return toChange(object, 'update', { message: 'deleted and created again' })
    return toFailedChange(deps, object, failure)
  }
}

/** An agent may have the right to write Secrets without the right to read them. */
async function readLive(deps: CheckDeps, object: KubeObject): Promise<KubeObject | 'absent' | 'unreadable'> {
  const { signal } = deps.rules
  try {
    return (await retrying(deps, READ_RETRY, () => deps.kube.find(refOf(object)), signal)) ?? 'absent'
  } catch (error) {
    signal?.throwIfAborted()
    if (classifyFailure(error).code === 'forbidden') return 'unreadable'
    throw error
  }
}

const ownPath = toPointer(['metadata', 'annotations', HASH_ANNOTATION])

function listFields(live: KubeObject, predicted: KubeObject, planKey: Buffer) {
  return diffMasked(live, predicted, planFieldsMax + 1, planKey)
    .filter(({ path }) => path !== ownPath)
    .map((change) => toField(change, findFieldOwner(live, parsePointer(change.path) ?? [])?.manager ?? null))
}
