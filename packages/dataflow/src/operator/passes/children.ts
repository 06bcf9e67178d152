// Writes the children of flows by server-side apply. Ownership is checked before each write: an object of the same name that the flow does not
// control is never changed. A child whose version and desired content are those of the last write costs no request.
import { createHash } from 'node:crypto'
import { controllerOf, describeRef, hasReason, type Kube, type KubeObject, nameKey, type ObjectRef, refOf } from '@brokkr/kube'
import { errorText } from '@brokkr/runtime/errors.ts'
import { fieldManager, type Owner } from '../names.ts'
import { type ClusterView, reduceObject } from '../watches.ts'

export class NameTaken extends Error {
  override name = 'NameTaken'

  constructor(ref: ObjectRef) {
    super(`${describeRef(ref)} exists and is not owned by this flow: rename the flow or delete that object`)
  }
}

/** The API server refuses to change the child to its desired form: a field is immutable, or the desired form itself is invalid. */
export class NotReplaceable extends Error {
  override name = 'NotReplaceable'
  readonly live: KubeObject

  constructor(live: KubeObject, cause: unknown) {
    super(`${describeRef(refOf(live))} cannot be changed to the desired form: ${errorText(cause)}`, { cause })
    this.live = live
  }
}

export type EnsureResult = { readonly result: 'created' | 'updated' | 'unchanged'; readonly object: KubeObject | undefined }

interface Applied {
  readonly hash: string
  readonly uid: string
  readonly version: string
  /** Of workloads only. */
  readonly object: KubeObject | undefined
}

export class Children {
  readonly #kube: Kube
  readonly #view: ClusterView
  readonly #applied = new Map<string, Applied>()

  constructor(deps: { readonly kube: Kube; readonly view: ClusterView }) {
    this.#kube = deps.kube
    this.#view = deps.view
  }

  /** Whether the cache shows these children as they were last applied. A kind that is not watched counts as untouched. */
  areUntouched(refs: readonly ObjectRef[]): boolean {
    return refs.every((ref) => {
      const applied = this.#applied.get(keyOf(ref))
      if (applied === undefined) return false
      if (!this.#view.isWatched(ref.kind)) return true
      const seen = this.#view.child(ref)
      return seen !== undefined && applied.uid === seen.metadata.uid && applied.version === versionOf(seen)
    })
  }

  /** The cached object, or the last applied one while the cache is behind. */
  newest(ref: ObjectRef): KubeObject | undefined {
    const seen = this.#view.child(ref)
    const applied = this.#applied.get(keyOf(ref))?.object
    if (seen === undefined || applied === undefined || applied.metadata.uid !== seen.metadata.uid) return seen ?? applied
    return (applied.metadata.generation ?? 0) > (seen.metadata.generation ?? 0) ? applied : seen
  }

  async ensure(owner: Owner, wanted: KubeObject, signal: AbortSignal): Promise<EnsureResult> {
    const hash = hashOf(wanted)
    if (this.#isSettled(wanted, this.#view.child(refOf(wanted)), hash)) return { result: 'unchanged', object: undefined }
    const live = await this.#kube.find(refOf(wanted), { signal, metadataOnly: true })
    if (live === undefined) return this.#create(wanted, hash, signal)
    if (controllerOf(live)?.uid !== owner.metadata.uid) throw new NameTaken(refOf(wanted))
    if (this.#isSettled(wanted, live, hash)) return { result: 'unchanged', object: undefined }
    try {
      // With the uid that was checked: an object that replaced it meanwhile is not changed.
      const named = { ...wanted, metadata: { ...wanted.metadata, uid: live.metadata.uid ?? '' } }
      const { object } = await this.#kube.apply(named, { fieldManager, force: true, signal })
      this.#note(wanted, object, hash)
      const isChanged = object.metadata.resourceVersion !== live.metadata.resourceVersion
      return { result: isChanged ? 'updated' : 'unchanged', object }
    } catch (error) {
      if (hasReason(error, 'Invalid')) throw new NotReplaceable({ ...live, kind: wanted.kind, apiVersion: wanted.apiVersion }, error)
      throw error
    }
  }

  /** Creates the object once. Most fields of a Job are immutable, so an existing one is left as it was started. */
  async start(owner: Owner, wanted: KubeObject, signal: AbortSignal): Promise<void> {
    const live = await this.#kube.find(refOf(wanted), { signal, metadataOnly: true })
    if (live === undefined) await this.#kube.create(wanted, { fieldManager, signal })
    else if (controllerOf(live)?.uid !== owner.metadata.uid) throw new NameTaken(refOf(wanted))
  }

  /** Throws if the API server would not create the object. Nothing is written. */
  async checkCreatable(wanted: KubeObject, signal: AbortSignal): Promise<void> {
    const probe = { ...wanted, metadata: { ...wanted.metadata, name: `${wanted.metadata.name}-check` } }
    await this.#kube.create(probe, { fieldManager, dryRun: true, signal })
  }

  /** Without force: fields of an object that was created meanwhile are not taken over. */
  async #create(wanted: KubeObject, hash: string, signal: AbortSignal): Promise<EnsureResult> {
    try {
      const { object } = await this.#kube.apply(wanted, { fieldManager, signal })
      this.#note(wanted, object, hash)
      return { result: 'created', object }
    } catch (error) {
      if (hasReason(error, 'Conflict')) throw new NameTaken(refOf(wanted))
      throw error
    }
  }

  /** Deletes the object if the flow controls it. Returns whether one was deleted. */
  async remove(owner: Owner, ref: ObjectRef, signal: AbortSignal): Promise<boolean> {
    this.#applied.delete(keyOf(ref))
    const live = await this.#kube.find(ref, { signal, metadataOnly: true })
    if (live === undefined || controllerOf(live)?.uid !== owner.metadata.uid) return false
    try {
      await this.#kube.delete(ref, { signal, uid: live.metadata.uid, propagation: 'Background' })
      return true
    } catch (error) {
      if (hasReason(error, 'NotFound', 'Conflict')) return false
      throw error
    }
  }

  /** For a flow that is gone. */
  forget(refs: readonly ObjectRef[]): void {
    for (const ref of refs) this.#applied.delete(keyOf(ref))
  }

  #isSettled(wanted: KubeObject, seen: KubeObject | undefined, hash: string): boolean {
    const applied = this.#applied.get(keyOf(refOf(wanted)))
    return (
      seen !== undefined &&
      applied !== undefined &&
      applied.hash === hash &&
      applied.uid === seen.metadata.uid &&
      applied.version === versionOf(seen)
    )
  }

  #note(wanted: KubeObject, object: KubeObject, hash: string): void {
    const kept = object.metadata.generation === undefined ? undefined : reduceObject(object)
    this.#applied.set(keyOf(refOf(wanted)), { hash, uid: object.metadata.uid ?? '', version: versionOf(object), object: kept })
  }
}

/** The data of a checkpoint changes all the time and is the processor's. Status changes of a workload do not count, edits of its spec do. */
function versionOf({ kind, metadata }: KubeObject): string {
  if (kind === 'ConfigMap') return ''
  return metadata.generation === undefined ? (metadata.resourceVersion ?? '') : `g${metadata.generation}`
}

const keyOf = (ref: ObjectRef): string => `${ref.kind}/${nameKey(ref)}`
const hashOf = (object: KubeObject): string => createHash('sha256').update(JSON.stringify(object)).digest('base64')

/** Why a request of a user cannot be carried out; undefined if it was. It must not stop the pass, which has a status to write. */
export async function findRefusal(start: () => Promise<void>): Promise<string | undefined> {
  try {
    await start()
    return undefined
  } catch (error) {
    if (error instanceof NameTaken || hasReason(error, 'Invalid', 'Forbidden')) return errorText(error)
    throw error
  }
}
