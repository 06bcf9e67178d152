// Deleting one very object and waiting until it is gone: an object made later under the same name is another one and is left alone.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { hasReason, KubeError } from './api-error.ts'
import type { DeleteOptions, Kube } from './kube.ts'
import { describeRef, type ObjectRef } from './object.ts'

export interface Target {
  ref: ObjectRef
  uid: string
}

/** `gone`: no such object any more, or another one stands there; `going`: finalizers or grace periods still run. */
export async function removeObject(
  deps: { kube: Kube },
  target: Target,
  options: Omit<DeleteOptions, 'uid'> = {},
): Promise<'gone' | 'going'> {
  try {
    const left = await deps.kube.delete(target.ref, { ...options, uid: target.uid })
    return left?.metadata.deletionTimestamp === undefined ? 'gone' : 'going'
  } catch (error) {
    // A precondition that fails is a Conflict: the name now belongs to a later object.
    if (hasReason(error, 'NotFound', 'Conflict')) return 'gone'
    throw error
  }
}

/** The finalizers that hold the object; undefined when it is gone. */
export async function whatHolds(deps: { kube: Kube }, target: Target): Promise<string[] | undefined> {
  const live = await deps.kube.find(target.ref, { metadataOnly: true })
  return live?.metadata.uid === target.uid ? (live.metadata.finalizers ?? []) : undefined
}

export async function removeAndWait(
  deps: { kube: Kube; clock: Clock },
  target: Target,
  options: { limitMs: number; signal?: AbortSignal | undefined },
): Promise<void> {
  await removeObject(deps, target)
  const untilMs = deps.clock.monotonicMs() + options.limitMs
  for (let pauseMs = 20; ; pauseMs = Math.min(1_000, pauseMs * 2)) {
    const finalizers = await whatHolds(deps, target)
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
