// Server-side apply of one object: a dry run, then the write. Handles three special cases: a foreign object of the same name, a change that
// the kind forbids, and fields that an older field manager of ours still owns.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { ApplyOptions, Kube, Written } from '../client/kube.ts'
import { KubeError } from '../client/kube-error.ts'
import { describeRef, groupKindOf, groupKindText, type KubeObject, type ObjectRef, refOf } from '../client/object.ts'
import { API_RETRY, type RetryPolicy, retrying } from '../client/retry.ts'
import { mayHaveChanged, toApplyPayload, toEmptyPayload } from './apply-format.ts'
import { deleteAndWait } from './delete-object.ts'
import { classifyFailure, type Failure, isImmutable } from './failure.ts'
import { hasManager, isOnlyAppliedBy, migrateManagers } from './managed-fields.ts'

export interface ApplyItem {
  object: KubeObject
  /** Takes over fields from other managers. */
  force?: boolean | undefined
  /** The caller expects that the object does not exist. If it does, the apply fails with `foreign_object` and leaves it unchanged. */
  expect?: 'absent' | undefined
  /** Replaces the object by delete and create if a field is immutable. Never set for kinds that hold data. */
  replace?: boolean | undefined
  /** The live object in this version is known to differ, so the dry run only has to succeed and its response is not parsed. `migrate`: an
   *  older manager of ours still owns fields of it. */
  differs?: { resourceVersion: string | undefined; migrate: boolean } | undefined
}

export type ApplyAction = 'created' | 'configured' | 'unchanged' | 'skipped' | 'failed'

export interface ApplyOutcome {
  ref: ObjectRef
  action: ApplyAction
  /** Deleted and created again, because a field was immutable. */
  replaced: boolean
  uid?: string
  resourceVersion?: string
  failure?: Failure
  warnings: string[]
}

export interface WriteRules {
  fieldManager: string
  fieldValidation?: ApplyOptions['fieldValidation']
  /** Managers whose fields are taken over at the first apply. */
  migrateFrom?: readonly string[] | undefined
  retry?: RetryPolicy | undefined
  /** Time limit for the deletion of a replaced object. */
  goneLimitMs?: number | undefined
  signal?: AbortSignal | undefined
}

export interface ApplyDeps {
  kube: Kube
  clock: Clock
}

/** Result of a dry run. Keeps only what the write needs, because a set has one result per object. */
export type DryRunResult =
  | { found: 'unchanged' | 'change'; state: ObjectState; migrate: boolean }
  | { found: 'immutable' }
  | { found: 'failure'; failure: Failure }

/** `resourceVersion` of a dry run is that of the live object. */
export interface ObjectState {
  created: boolean
  uid: string | undefined
  resourceVersion: string | undefined
  warnings: string[]
}

const toObjectState = ({ object, created, warnings }: Written): ObjectState => ({
  created,
  uid: object.metadata.uid,
  resourceVersion: object.metadata.resourceVersion,
  warnings,
})

/** For an object that a dry run would create; its response is not kept. */
const unseen = { created: true, uid: undefined, resourceVersion: undefined }

export async function dryRunObject(deps: ApplyDeps, item: ApplyItem, rules: WriteRules): Promise<DryRunResult> {
  try {
    const written = await send(deps, item, rules, true)
    // A dry run writes nothing, so an existing object was there before; the caller must find out who owns it.
    if (item.expect === 'absent' && !written.created) return { found: 'failure', failure: foreign(item) }
    if (written.created) return { found: 'change', state: { ...unseen, warnings: written.warnings }, migrate: false }
    if (item.differs) {
      const { resourceVersion, migrate } = item.differs
      return { found: 'change', state: { created: false, uid: undefined, resourceVersion, warnings: written.warnings }, migrate }
    }
    const migrate = hasManager(written.object, rules.migrateFrom ?? [])
    return {
      found: migrate || mayHaveChanged(written, rules.fieldManager) ? 'change' : 'unchanged',
      state: toObjectState(written),
      migrate,
    }
  } catch (error) {
    rules.signal?.throwIfAborted()
    return isImmutable(error) && mayReplace(item) ? { found: 'immutable' } : { found: 'failure', failure: classifyFailure(error) }
  }
}

/** Writes the object, or skips the write if the dry run found no difference. Throws only the signal's reason. */
export async function writeObject(
  deps: ApplyDeps,
  item: ApplyItem,
  trial: DryRunResult | undefined,
  rules: WriteRules,
): Promise<ApplyOutcome> {
  try {
    if (trial?.found === 'failure') return failedOutcome(item, trial.failure)
    if (trial?.found === 'unchanged') return buildApplyOutcome(item, 'unchanged', trial.state)
    if (trial?.found === 'immutable') return await replaceObject(deps, item, rules)
    const managers = { from: rules.migrateFrom ?? [], to: rules.fieldManager }
    if (trial?.migrate)
      await retrying(deps, rules.retry ?? API_RETRY, () => migrateManagers(deps, refOf(item.object), managers), rules.signal)
    return await writeOnce(deps, item, trial, rules)
  } catch (error) {
    rules.signal?.throwIfAborted()
    return failedOutcome(item, classifyFailure(error))
  }
}

async function writeOnce(deps: ApplyDeps, item: ApplyItem, trial: DryRunResult | undefined, rules: WriteRules): Promise<ApplyOutcome> {
  try {
    const written = await send(deps, item, rules, false)
    if (isForeign(item, written, rules)) return await takeBack(deps, item, rules)
    return buildApplyOutcome(item, decideAction(written, trial, rules.fieldManager), toObjectState(written))
  } catch (error) {
    // Without a dry run this is the first sign that the object exists.
    if (isImmutable(error) && mayReplace(item)) return replaceObject(deps, item, rules)
    throw error
  }
}

function send(deps: ApplyDeps, item: ApplyItem, rules: WriteRules, dryRun: boolean): Promise<Written> {
  const { fieldManager, fieldValidation } = rules
  const object = toApplyPayload(item.object)
  // The signal ends waits but not a request in flight: its effect would be unknown.
  return retrying(
    deps,
    rules.retry ?? API_RETRY,
    () => deps.kube.apply(object, { fieldManager, fieldValidation, dryRun, force: item.force }),
    rules.signal,
  )
}

/** A write that is repeated after a lost response meets its own first attempt: that object has no other manager. */
const isForeign = (item: ApplyItem, written: Written, rules: WriteRules): boolean =>
  item.expect === 'absent' && !written.created && !isOnlyAppliedBy(written.object, rules.fieldManager)

const foreign = (item: ApplyItem): Failure => ({
  code: 'foreign_object',
  message: `${describeRef(refOf(item.object))} exists already and is not ours; adopt it or choose another name`,
  retryable: false,
})

async function takeBack(deps: ApplyDeps, item: ApplyItem, rules: WriteRules): Promise<ApplyOutcome> {
  await retrying(deps, rules.retry ?? API_RETRY, () => deps.kube.apply(toEmptyPayload(item.object), { fieldManager: rules.fieldManager }))
  return failedOutcome(item, foreign(item))
}

function decideAction(written: Written, trial: DryRunResult | undefined, manager: string): ApplyAction {
  if (written.created) return 'created'
  // The dry run returned the version before the write; the same version now means that nothing was written.
  const before = trial && 'state' in trial ? trial.state.resourceVersion : undefined
  if (before !== undefined) return before === written.object.metadata.resourceVersion ? 'unchanged' : 'configured'
  return mayHaveChanged(written, manager) ? 'configured' : 'unchanged'
}

const HOLDS_DATA: ReadonlySet<string> = new Set([
  'Namespace',
  'CustomResourceDefinition.apiextensions.k8s.io',
  'PersistentVolume',
  'PersistentVolumeClaim',
])

const mayReplace = (item: ApplyItem): boolean => item.replace === true && !HOLDS_DATA.has(groupKindText(groupKindOf(item.object)))

async function replaceObject(deps: ApplyDeps, item: ApplyItem, rules: WriteRules): Promise<ApplyOutcome> {
  const ref = refOf(item.object)
  const live = await retrying(deps, rules.retry ?? API_RETRY, () => deps.kube.find(ref, { metadataOnly: true }), rules.signal)
  const uid = live?.metadata.uid
  if (live && uid === undefined) throw new KubeError(`${describeRef(ref)}: has no uid`, { reason: 'BadAnswer' })
  if (uid !== undefined) await deleteAndWait(deps, { ref, uid }, { limitMs: rules.goneLimitMs ?? 60_000, signal: rules.signal })
  const written = await send(deps, item, rules, false)
  return { ...buildApplyOutcome(item, written.created ? 'created' : 'configured', toObjectState(written)), replaced: true }
}

export function buildApplyOutcome(item: ApplyItem, action: ApplyAction, seen?: ObjectState): ApplyOutcome {
  return {
    ref: refOf(item.object),
    action,
    replaced: false,
    ...(seen?.uid ? { uid: seen.uid } : {}),
    ...(seen?.resourceVersion ? { resourceVersion: seen.resourceVersion } : {}),
    warnings: seen?.warnings ?? [],
  }
}

export const failedOutcome = (item: ApplyItem, failure: Failure): ApplyOutcome => ({ ...buildApplyOutcome(item, 'failed'), failure })
