// Server-side apply of one object: a trial that changes nothing, then the write. Knows the three special cases: an object of somebody
// else under our name, a change that the kind forbids, fields that an older manager of ours still holds.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { KubeError } from './api-error.ts'
import { applyForm, emptyForm, mayHaveChanged } from './apply-form.ts'
import { type Failure, failureOf, isImmutable } from './failure.ts'
import { removeAndWait } from './gone.ts'
import type { ApplyOptions, Kube, Written } from './kube.ts'
import { hasManager, isOnlyAppliedBy, migrateManagers } from './managed-fields.ts'
import { describeRef, groupKindOf, groupKindText, type KubeObject, type ObjectRef, refOf } from './object.ts'
import { API_RETRY, type RetryPolicy, retrying } from './retry.ts'

export interface ApplyItem {
  object: KubeObject
  /** Takes fields from other managers. */
  force?: boolean | undefined
  /** The caller saw no such object. Meeting one fails with `foreign_object` and leaves it as it was. */
  expect?: 'absent' | undefined
  /** A change of an immutable field is carried out by delete and create. Never for kinds that hold data. */
  replace?: boolean | undefined
  /** What stands was seen to differ from the object in this version, so that a trial only has to pass: its answer is not read. `migrate`:
   *  an older manager of ours still holds fields of it. */
  differs?: { resourceVersion: string | undefined; migrate: boolean } | undefined
}

export type ApplyAction = 'created' | 'configured' | 'unchanged' | 'skipped' | 'failed'

export interface ApplyOutcome {
  ref: ObjectRef
  action: ApplyAction
  /** Deleted and made anew, because a field was immutable. */
  replaced: boolean
  uid?: string
  resourceVersion?: string
  failure?: Failure
  warnings: string[]
}

export interface WriteRules {
  fieldManager: string
  fieldValidation?: ApplyOptions['fieldValidation']
  /** Managers whose fields become ours at the first apply. */
  migrateFrom?: readonly string[] | undefined
  retry?: RetryPolicy | undefined
  /** How long a replaced object may take to go. */
  goneLimitMs?: number | undefined
  signal?: AbortSignal | undefined
}

export interface ApplyDeps {
  kube: Kube
  clock: Clock
}

/** What a trial found. Only what the write needs is kept of its answer: there is one trial per object of a set. */
export type Trial =
  | { found: 'unchanged' | 'change'; seen: Seen; migrate: boolean }
  | { found: 'immutable' }
  | { found: 'failure'; failure: Failure }

/** `resourceVersion` of a trial is that of the live object. */
export interface Seen {
  created: boolean
  uid: string | undefined
  resourceVersion: string | undefined
  warnings: string[]
}

const seenOf = ({ object, created, warnings }: Written): Seen => ({
  created,
  uid: object.metadata.uid,
  resourceVersion: object.metadata.resourceVersion,
  warnings,
})

/** Of an object that a trial would make; what its answer says of it is never seen again. */
const unseen = { created: true, uid: undefined, resourceVersion: undefined }

export async function tryObject(deps: ApplyDeps, item: ApplyItem, rules: WriteRules): Promise<Trial> {
  try {
    const written = await send(deps, item, rules, true)
    // A trial writes nothing, so whatever it meets was there before: whose it is, the caller must find out.
    if (item.expect === 'absent' && !written.created) return { found: 'failure', failure: foreign(item) }
    if (written.created) return { found: 'change', seen: { ...unseen, warnings: written.warnings }, migrate: false }
    if (item.differs) {
      const { resourceVersion, migrate } = item.differs
      return { found: 'change', seen: { created: false, uid: undefined, resourceVersion, warnings: written.warnings }, migrate }
    }
    const migrate = hasManager(written.object, rules.migrateFrom ?? [])
    return { found: migrate || mayHaveChanged(written, rules.fieldManager) ? 'change' : 'unchanged', seen: seenOf(written), migrate }
  } catch (error) {
    rules.signal?.throwIfAborted()
    return isImmutable(error) && mayReplace(item) ? { found: 'immutable' } : { found: 'failure', failure: failureOf(error) }
  }
}

/** Writes the object, or nothing when the trial found no difference. Throws only the signal's reason. */
export async function writeObject(deps: ApplyDeps, item: ApplyItem, trial: Trial | undefined, rules: WriteRules): Promise<ApplyOutcome> {
  try {
    if (trial?.found === 'failure') return failedOutcome(item, trial.failure)
    if (trial?.found === 'unchanged') return outcomeOf(item, 'unchanged', trial.seen)
    if (trial?.found === 'immutable') return await replaceObject(deps, item, rules)
    if (trial?.migrate) await migrateManagers(deps, refOf(item.object), { from: rules.migrateFrom ?? [], to: rules.fieldManager })
    return await writeOnce(deps, item, trial, rules)
  } catch (error) {
    rules.signal?.throwIfAborted()
    return failedOutcome(item, failureOf(error))
  }
}

async function writeOnce(deps: ApplyDeps, item: ApplyItem, trial: Trial | undefined, rules: WriteRules): Promise<ApplyOutcome> {
  try {
    const written = await send(deps, item, rules, false)
    if (isForeign(item, written, rules)) return await takeBack(deps, item, rules)
    return outcomeOf(item, actionOf(written, trial, rules.fieldManager), seenOf(written))
  } catch (error) {
    // Without a trial this is the first we hear of it.
    if (isImmutable(error) && mayReplace(item)) return replaceObject(deps, item, rules)
    throw error
  }
}

function send(deps: ApplyDeps, item: ApplyItem, rules: WriteRules, dryRun: boolean): Promise<Written> {
  const { fieldManager, fieldValidation } = rules
  const object = applyForm(item.object)
  // The signal ends waits, not a request that may already have written: what it did would stay unknown.
  return retrying(
    deps,
    rules.retry ?? API_RETRY,
    () => deps.kube.apply(object, { fieldManager, fieldValidation, dryRun, force: item.force }),
    rules.signal,
  )
}

/** After a lost answer the write is repeated and meets its own first try: that one bears no other manager. */
const isForeign = (item: ApplyItem, written: Written, rules: WriteRules): boolean =>
  item.expect === 'absent' && !written.created && !isOnlyAppliedBy(written.object, rules.fieldManager)

const foreign = (item: ApplyItem): Failure => ({
  code: 'foreign_object',
  message: `${describeRef(refOf(item.object))} exists already and is not ours; adopt it or choose another name`,
  retryable: false,
})

async function takeBack(deps: ApplyDeps, item: ApplyItem, rules: WriteRules): Promise<ApplyOutcome> {
  await retrying(deps, rules.retry ?? API_RETRY, () => deps.kube.apply(emptyForm(item.object), { fieldManager: rules.fieldManager }))
  return failedOutcome(item, foreign(item))
}

function actionOf(written: Written, trial: Trial | undefined, manager: string): ApplyAction {
  if (written.created) return 'created'
  // The trial's answer carries the version before the write: the same one now means that nothing was written.
  const before = trial && 'seen' in trial ? trial.seen.resourceVersion : undefined
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
  const live = await deps.kube.find(ref, { metadataOnly: true })
  const uid = live?.metadata.uid
  if (live && uid === undefined) throw new KubeError(`${describeRef(ref)}: has no uid`, { reason: 'BadAnswer' })
  if (uid !== undefined) await removeAndWait(deps, { ref, uid }, { limitMs: rules.goneLimitMs ?? 60_000, signal: rules.signal })
  const written = await send(deps, item, rules, false)
  return { ...outcomeOf(item, written.created ? 'created' : 'configured', seenOf(written)), replaced: true }
}

export function outcomeOf(item: ApplyItem, action: ApplyAction, seen?: Seen): ApplyOutcome {
  return {
    ref: refOf(item.object),
    action,
    replaced: false,
    ...(seen?.uid ? { uid: seen.uid } : {}),
    ...(seen?.resourceVersion ? { resourceVersion: seen.resourceVersion } : {}),
    warnings: seen?.warnings ?? [],
  }
}

export const failedOutcome = (item: ApplyItem, failure: Failure): ApplyOutcome => ({ ...outcomeOf(item, 'failed'), failure })
