// Finds the workload that owns a pod or another object, by owner references. Pure.
import { controllerOf, type KubeObject } from '../client/object.ts'

const HOPS_MAX = 4

/**
 * Returns the uid of the nearest owner for which `isMember` holds, at most four hops up: Pod → ReplicaSet → Deployment, Pod → Job → CronJob.
 * `objectOf` returns an owner in between, if it is known; otherwise the chain ends there.
 */
export function findOwningMember(
  child: KubeObject,
  isMember: (uid: string) => boolean,
  objectOf: (uid: string) => KubeObject | undefined,
): string | undefined {
  let current: KubeObject | undefined = child
  for (let hop = 0; hop < HOPS_MAX && current; hop++) {
    const owner = controllerOf(current) ?? current.metadata.ownerReferences?.[0]
    if (!owner) return undefined
    if (isMember(owner.uid)) return owner.uid
    current = objectOf(owner.uid)
  }
  return undefined
}
