// The health of a Deployment: its rollout first, then how many of it are there. Pure.
import { findCondition, isTrue } from '../conditions.ts'
import { numberAt, textAt } from '../fields.ts'
import type { KubeObject } from '../object.ts'
import { degraded, failing, progressing, ready, type Verdict } from './verdict.ts'

export function judgeDeployment(object: KubeObject): Verdict {
  const rollout = findCondition(object, 'Progressing')
  if (textAt(rollout, 'status') === 'False' && textAt(rollout, 'reason') === 'ProgressDeadlineExceeded')
    return failing('ProgressDeadlineExceeded', textAt(rollout, 'message') ?? '')
  if (isTrue(object, 'ReplicaFailure')) return degraded('ReplicaFailure', textAt(findCondition(object, 'ReplicaFailure'), 'message') ?? '')
  const wanted = numberAt(object, 'spec', 'replicas') ?? 1
  const count = (key: string) => numberAt(object, 'status', key) ?? 0
  const [total, updated, available] = [count('replicas'), count('updatedReplicas'), count('availableReplicas')]
  if (updated < wanted) return progressing('RollingOut', `${updated} of ${wanted} replicas updated`)
  if (total > updated) return progressing('RollingOut', `${total - updated} old replicas still to go`)
  if (available >= updated) return ready(wanted === 0 ? 'ScaledToZero' : 'Ready')
  const text = `${available} of ${updated} replicas available`
  // The rollout had been complete, so these replicas were lost since.
  return textAt(rollout, 'reason') === 'NewReplicaSetAvailable' ? degraded('Unavailable', text) : progressing('Unavailable', text)
}
