// Health of one object: rules for every kind, then the rule of its kind, then its pods. Pure.
import { numberAt } from '../client/fields.ts'
import { groupKindOf, groupKindText, isTerminating, type KubeObject } from '../client/object.ts'
import { judgeDataflow } from './dataflow.ts'
import { judgeByConditions } from './generic.ts'
import { judgeCronJob, judgeJob } from './job.ts'
import { judgePod } from './pod.ts'
import { judgeDaemonSet, judgeDeployment, judgeReplicaSet, judgeStatefulSet } from './replicated.ts'
import { judgeApiService, judgeAutoscaler, judgeClaim, judgeDefinition, judgeIngress, judgeNamespace, judgeService } from './simple.ts'
import { degraded, type HealthContext, progressing, type Rule, type Verdict, worst } from './verdict.ts'

const RULES: Readonly<Record<string, Rule>> = {
  Pod: judgePod,
  'Deployment.apps': judgeDeployment,
  'StatefulSet.apps': judgeStatefulSet,
  'DaemonSet.apps': judgeDaemonSet,
  'ReplicaSet.apps': judgeReplicaSet,
  ReplicationController: judgeReplicaSet,
  'Job.batch': judgeJob,
  'CronJob.batch': judgeCronJob,
  PersistentVolumeClaim: judgeClaim,
  Service: judgeService,
  'Ingress.networking.k8s.io': judgeIngress,
  'CustomResourceDefinition.apiextensions.k8s.io': judgeDefinition,
  'APIService.apiregistration.k8s.io': judgeApiService,
  Namespace: judgeNamespace,
  'HorizontalPodAutoscaler.autoscaling': judgeAutoscaler,
  'DataFlow.dataflow.dataflow.io': judgeDataflow,
  'DataFlowCron.dataflow.dataflow.io': judgeDataflow,
}

const STUCK_MS = 10 * 60_000

/** `undefined` means that the object should exist and does not. */
export function judgeHealth(object: KubeObject | undefined, context: HealthContext): Verdict {
  if (!object) return degraded('Missing', 'the object does not exist')
  const kind = groupKindText(groupKindOf(object))
  const verdict = isTerminating(object) ? progressing('Terminating', 'the object is being deleted') : judgeKind(kind, object, context)
  const stuckMs = context.nowMs - (context.unchangedSinceMs ?? context.nowMs)
  // A Job has no time limit.
  if (verdict.state !== 'progressing' || kind === 'Job.batch' || stuckMs < STUCK_MS) return verdict
  return degraded(verdict.reason, `no progress for ${Math.floor(stuckMs / 60_000)} min: ${verdict.message}`)
}

function judgeKind(kind: string, object: KubeObject, context: HealthContext): Verdict {
  const observed = numberAt(object, 'status', 'observedGeneration')
  if (observed !== undefined && observed < (object.metadata.generation ?? 0))
    return progressing('OutOfDate', `generation ${object.metadata.generation} has not been looked at yet`)
  const own = (Object.hasOwn(RULES, kind) ? (RULES[kind] as Rule) : judgeByConditions)(object, context)
  return kind === 'Pod' ? own : coverPods(kind, own, context.pods ?? [])
}

/** A workload is at most as healthy as its pods, and their reason is more specific than its own. */
function coverPods(kind: string, own: Verdict, pods: readonly KubeObject[]): Verdict {
  // A failed pod that was replaced (evicted, or one attempt of a Job) does not count.
  const forgiven = own.state === 'ready' || (kind === 'Job.batch' && own.state === 'progressing')
  const deciding = pods.filter((pod) => !isTerminating(pod) && !(forgiven && pod.status?.['phase'] === 'Failed'))
  const verdicts = deciding.map((pod) => ({ pod, verdict: judgePod(pod) }))
  const namedVerdicts = verdicts.map(({ pod, verdict }) => ({ ...verdict, message: `pod ${pod.metadata.name}: ${verdict.message}` }))
  // Pods first, so that their reason is shown on a tie; ready and progressing pods add nothing.
  return (
    worst([...namedVerdicts.filter(({ state }) => state !== 'ready' && (state !== 'progressing' || own.state === 'ready')), own]) ?? own
  )
}
