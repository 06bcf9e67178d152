// Finding the workload that a pod or another child belongs to, by its owner references. Pure.
import { controllerOf, type KubeObject } from '../object.ts'

const HOPS_MAX = 4

/**
 * The uid of the nearest owner for which `isMember` holds, at most four hops up: Pod → ReplicaSet → Deployment, Pod → Job → CronJob.
 * `objectOf` gives what is known of an owner between; without it the chain ends there.
 */
export function memberAbove(
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
