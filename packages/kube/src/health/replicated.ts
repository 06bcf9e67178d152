// The health of the other kinds that hold a number of pods: StatefulSet, DaemonSet, ReplicaSet, ReplicationController. Pure.
import { numberAt, textAt } from '../fields.ts'
import type { KubeObject } from '../object.ts'
import { progressing, ready, type Verdict } from './verdict.ts'

const count = (object: KubeObject, key: string): number => numberAt(object, 'status', key) ?? 0

const wantedOf = (object: KubeObject): number => numberAt(object, 'spec', 'replicas') ?? 1

export function judgeStatefulSet(object: KubeObject): Verdict {
  const wanted = wantedOf(object)
  const readyCount = count(object, 'readyReplicas')
  if (readyCount < wanted) return progressing('Unavailable', `${readyCount} of ${wanted} replicas ready`)
  // Nobody but a person replaces the pods of such a set.
  if (textAt(object, 'spec', 'updateStrategy', 'type') === 'OnDelete') return ready()
  const partition = numberAt(object, 'spec', 'updateStrategy', 'rollingUpdate', 'partition') ?? 0
  const toUpdate = Math.max(0, wanted - partition)
  const updated = count(object, 'updatedReplicas')
  if (updated < toUpdate) return progressing('RollingOut', `${updated} of ${toUpdate} replicas updated`)
  const [current, update] = [textAt(object, 'status', 'currentRevision'), textAt(object, 'status', 'updateRevision')]
  // Below a partition the two differ on purpose.
  if (partition === 0 && current !== update) return progressing('RollingOut', `revision ${current} is still in use beside ${update}`)
  return ready()
}

export function judgeDaemonSet(object: KubeObject): Verdict {
  const wanted = count(object, 'desiredNumberScheduled')
  const short = (['updatedNumberScheduled', 'numberAvailable', 'numberReady'] as const).find((key) => count(object, key) < wanted)
  return short ? progressing('RollingOut', `${short} is ${count(object, short)} of ${wanted}`) : ready()
}

export function judgeReplicaSet(object: KubeObject): Verdict {
  const available = count(object, 'availableReplicas')
  const wanted = wantedOf(object)
  return available < wanted ? progressing('Unavailable', `${available} of ${wanted} replicas available`) : ready()
}
