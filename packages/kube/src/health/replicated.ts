// Health of Deployment, StatefulSet, DaemonSet, ReplicaSet and ReplicationController. Pure.
import { numberAt, textAt } from '../client/fields.ts'
import type { KubeObject } from '../client/object.ts'
import { findCondition, isTrue } from '../controller/conditions.ts'
import { degraded, failing, progressing, ready, type Verdict } from './verdict.ts'

const count = (object: KubeObject, key: string): number => numberAt(object, 'status', key) ?? 0

const getDesiredReplicas = (object: KubeObject): number => numberAt(object, 'spec', 'replicas') ?? 1

/** Rollout first, then available replicas. */
export function judgeDeployment(object: KubeObject): Verdict {
  const rollout = findCondition(object, 'Progressing')
  if (textAt(rollout, 'status') === 'False' && textAt(rollout, 'reason') === 'ProgressDeadlineExceeded')
    return failing('ProgressDeadlineExceeded', textAt(rollout, 'message') ?? '')
  if (isTrue(object, 'ReplicaFailure')) return degraded('ReplicaFailure', textAt(findCondition(object, 'ReplicaFailure'), 'message') ?? '')
  const desiredReplicas = getDesiredReplicas(object)
  const [total, updated] = [count(object, 'replicas'), count(object, 'updatedReplicas')]
  const available = count(object, 'availableReplicas')
  if (updated < desiredReplicas) return progressing('RollingOut', `${updated} of ${desiredReplicas} replicas updated`)
  if (total > updated) return progressing('RollingOut', `${total - updated} old replicas still to go`)
  if (available >= updated) return ready(desiredReplicas === 0 ? 'ScaledToZero' : 'Ready')
  const text = `${available} of ${updated} replicas available`
  // The rollout was complete, so these replicas were lost afterwards.
  return textAt(rollout, 'reason') === 'NewReplicaSetAvailable' ? degraded('Unavailable', text) : progressing('Unavailable', text)
}

export function judgeStatefulSet(object: KubeObject): Verdict {
  const desiredReplicas = getDesiredReplicas(object)
  const readyCount = count(object, 'readyReplicas')
  if (readyCount < desiredReplicas) return progressing('Unavailable', `${readyCount} of ${desiredReplicas} replicas ready`)
  // With OnDelete only a user replaces the pods.
  if (textAt(object, 'spec', 'updateStrategy', 'type') === 'OnDelete') return ready()
  const partition = numberAt(object, 'spec', 'updateStrategy', 'rollingUpdate', 'partition') ?? 0
  const toUpdate = Math.max(0, desiredReplicas - partition)
  const updated = count(object, 'updatedReplicas')
  if (updated < toUpdate) return progressing('RollingOut', `${updated} of ${toUpdate} replicas updated`)
  const [current, update] = [textAt(object, 'status', 'currentRevision'), textAt(object, 'status', 'updateRevision')]
  // Below a partition the two differ on purpose.
  if (partition === 0 && current !== update) return progressing('RollingOut', `revision ${current} is still in use beside ${update}`)
  return ready()
}

export function judgeDaemonSet(object: KubeObject): Verdict {
  const desiredCount = count(object, 'desiredNumberScheduled')
  const short = (['updatedNumberScheduled', 'numberAvailable', 'numberReady'] as const).find((key) => count(object, key) < desiredCount)
  return short ? progressing('RollingOut', `${short} is ${count(object, short)} of ${desiredCount}`) : ready()
}

export function judgeReplicaSet(object: KubeObject): Verdict {
  const available = count(object, 'availableReplicas')
  const desiredReplicas = getDesiredReplicas(object)
  return available < desiredReplicas ? progressing('Unavailable', `${available} of ${desiredReplicas} replicas available`) : ready()
}
