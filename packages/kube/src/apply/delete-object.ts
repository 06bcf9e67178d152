// Deletes one object by uid and waits until it is gone; a newer object of the same name is left alone.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { DeleteOptions, Kube } from '../client/kube.ts'
import { hasReason, isObjectNotFound, KubeError } from '../client/kube-error.ts'
import { describeRef, type ObjectRef } from '../client/object.ts'
import { READ_RETRY, retrying } from '../client/retry.ts'

export interface Target {
  ref: ObjectRef
  uid: string
}

/** `gone`: the object no longer exists, or another object has its name; `going`: finalizers or grace periods still run. */
export async function deleteObject(
  deps: { kube: Kube },
  target: Target,
  options: Omit<DeleteOptions, 'uid'> = {},
): Promise<'gone' | 'going'> {
  try {
    const remainingObject = await deps.kube.delete(target.ref, { ...options, uid: target.uid })
    return remainingObject?.metadata.deletionTimestamp === undefined ? 'gone' : 'going'
  } catch (error) {
    if (isObjectNotFound(error)) return 'gone'
    // An admission webhook can refuse with 409 too, so a Conflict is no proof: only another uid under the same name is.
    if (hasReason(error, 'Conflict') && (await findFinalizers(deps, target)) === undefined) return 'gone'
    throw error
  }
}

/** Returns the finalizers of the object; undefined when it is gone. */
export async function findFinalizers(deps: { kube: Kube }, target: Target): Promise<string[] | undefined> {
  try {
    const live = await deps.kube.get(target.ref, { metadataOnly: true })
    return live.metadata.uid === target.uid ? (live.metadata.finalizers ?? []) : undefined
  } catch (error) {
    if (isObjectNotFound(error)) return undefined
    throw error
  }
}

export async function deleteAndWait(
  deps: { kube: Kube; clock: Clock },
  target: Target,
  options: { limitMs: number; signal?: AbortSignal | undefined },
): Promise<void> {
  await deleteObject(deps, target)
  const untilMs = deps.clock.monotonicMs() + options.limitMs
  for (let pauseMs = 20; ; pauseMs = Math.min(1_000, pauseMs * 2)) {
    const finalizers = await retrying(deps, READ_RETRY, () => findFinalizers(deps, target), options.signal)
    if (!finalizers) return
    if (deps.clock.monotonicMs() >= untilMs)
      throw new KubeError(
        `${describeRef(target.ref)}: is still there ${options.limitMs} ms after its deletion; finalizers: ${finalizers.join(', ') || 'none'}`,
        {
          reason: 'TimedOut',
        },
      )
    await deps.clock.sleep(pauseMs, options.signal)
  }
}
