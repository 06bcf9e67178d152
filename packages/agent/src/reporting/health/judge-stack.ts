// Assesses the health of a stack from observed objects: a verdict for each member with its pods, and the summary for the broker. Pure.
import { type HealthReport, resourcesMax } from '@brokkr/contract/health/deployment-health.ts'
import {
  findOwningMember,
  groupKindText,
  type HealthContext,
  identityKey,
  isTerminating,
  isTrue,
  judgeHealth,
  judgePod,
  type KubeObject,
  type Member,
  type SetStatus,
  summarizeHealth,
  textAt,
  toSetStatus,
  unknown,
  type Verdict,
} from '@brokkr/kube'
import { OBJECT_LABEL } from '../../reconcile/plan/ownership-metadata.ts'
import { fitSummary, isFlow, toFlowReport } from './flow-report.ts'
import { betweenGroup, betweenKinds, isWorkload, type Observation, unreadKey } from './observe.ts'

export interface StackInput {
  readonly members: readonly Member[]
  readonly objectId: string
  readonly observed: Observation
  readonly nowMs: number
  /** Start time of the member's current progress message. */
  readonly since: (key: string, says: string) => number
}
export type StackHealth = Pick<HealthReport, 'summary'> & { readonly status: 'healthy' | 'degraded' | 'failing' | 'unknown' }

interface Assessment {
  readonly member: Member
  readonly object: KubeObject | undefined
  readonly verdict: Verdict
}
const conditionsMax = 50
const messageCharsMax = 500

/** Unhealthy objects of the stack, by uid. */
export type UnwellObjects = ReadonlyMap<string, { readonly health: SetStatus; readonly message: string }>

export function assessStack(input: StackInput): { readonly health: StackHealth; readonly unwell: UnwellObjects } {
  const pods = groupPods(input)
  const assessments = input.members.map((member) => judgeMember(member, input, pods))
  const loose = pods.get(looseKey) ?? []
  const verdicts = [...assessments.map(({ verdict }) => verdict), ...loose.map((pod) => judgePod(pod))]
  const counted = [...pods.values()].flat().filter(isCounted)
  const { status, progressing } = summarizeHealth(verdicts)
  const resources = toResources(assessments, loose)
  const health: StackHealth = {
    status,
    summary: fitSummary({
      pods_ready: counted.filter((pod) => isTrue(pod, 'Ready')).length,
      pods_total: counted.length,
      conditions: [...new Set(verdicts.filter(({ state }) => state !== 'ready').map(({ reason }) => reason))]
        .toSorted()
        .slice(0, conditionsMax),
      resources: resources.slice(0, resourcesMax),
      progressing,
      ...(resources.length > resourcesMax ? { truncated: true } : {}),
    }),
  }
  return { health, unwell: listUnhealthy(assessments, [...pods.values()].flat()) }
}

function listUnhealthy(assessments: readonly Assessment[], pods: readonly KubeObject[]): UnwellObjects {
  const memberResources = assessments.map(({ member, object, verdict }) => ({ uid: object?.metadata.uid ?? member.uid, verdict }))
  const theirs = pods.map((pod) => ({ uid: pod.metadata.uid, verdict: judgePod(pod) }))
  const rows = [...memberResources, ...theirs].flatMap(({ uid, verdict }) =>
    uid === undefined || verdict.state === 'ready' ? [] : [[uid, { health: toSetStatus(verdict), message: toSentence(verdict) }] as const],
  )
  return new Map(rows)
}

const toSentence = ({ reason, message }: Verdict): string => `${reason}${message ? `: ${message}` : ''}`.slice(0, messageCharsMax)

const looseKey = ''

/** Pods by the key of their member; pods with only the label of the deployment object under an empty key. */
function groupPods({ members, objectId, observed }: StackInput): Map<string, KubeObject[]> {
  const above = new Map<string, string>()
  for (const member of members) {
    const uid = observed.objects.get(identityKey(member))?.metadata.uid
    if (uid !== undefined && isWorkload(member)) above.set(uid, identityKey(member))
  }
  const podsByMember = new Map<string, KubeObject[]>()
  for (const pod of observed.pods) {
    if (above.has(pod.metadata.uid ?? '')) continue
    const uid = findOwningMember(
      pod,
      (owner) => above.has(owner),
      (owner) => observed.between.get(owner),
    )
    const key = uid === undefined ? (pod.metadata.labels?.[OBJECT_LABEL] === objectId ? looseKey : undefined) : above.get(uid)
    if (key !== undefined) podsByMember.set(key, [...(podsByMember.get(key) ?? []), pod])
  }
  return podsByMember
}

function judgeMember(member: Member, input: StackInput, pods: ReadonlyMap<string, readonly KubeObject[]>): Assessment {
  const { observed, since } = input
  const key = identityKey(member)
  const object = observed.objects.get(key)
  const why = object ? undefined : (observed.unread.get(unreadKey(member, member.namespace)) ?? observed.unread.get(unreadKey(member, '')))
  if (why !== undefined) return { member, object, verdict: unknown(why, 'it cannot be read') }
  const children = isWorkload(member) ? unreadChildren(member, observed) : null
  const context = toContext(member, object, input, pods.get(key) ?? [])
  const first = judgeHealth(object, context)
  const unchangedSinceMs = since(key, first.state === 'progressing' ? `${first.reason} ${first.message}` : '')
  const verdict = first.state === 'progressing' ? judgeHealth(object, { ...context, unchangedSinceMs }) : first
  // Children that could not be read may be unhealthy.
  if (children && verdict.state === 'ready')
    return { member, object, verdict: unknown(children.why, `its ${children.kind}s cannot be read`) }
  return { member, object, verdict }
}

/** The unreadable kind of its direct or indirect children; null: all were read. */
function unreadChildren(member: Member, { unread }: Observation): { kind: string; why: 'Forbidden' | 'Unavailable' } | null {
  const between = betweenKinds(groupKindText(member)).map((kind) => ({ group: betweenGroup, kind }))
  for (const kind of [{ group: '', kind: 'Pod' }, ...between]) {
    const why = unread.get(unreadKey(kind, member.namespace))
    if (why !== undefined) return { kind: kind.kind, why }
  }
  return null
}

function toContext(member: Member, object: KubeObject | undefined, input: StackInput, pods: readonly KubeObject[]): HealthContext {
  const { observed, nowMs } = input
  const kind = groupKindText(member)
  if (kind === 'CronJob.batch') {
    const uid = object?.metadata.uid
    const jobs = [...observed.between.values()].filter(
      (each) => each.kind === 'Job' && each.metadata.ownerReferences?.some((owner) => owner.uid === uid),
    )
    return { nowMs, pods, jobs }
  }
  if (kind !== 'PersistentVolumeClaim') return { nowMs, pods }
  const isLazy = observed.lazyClasses.has(textAt(object, 'spec', 'storageClassName') ?? '')
  return { nowMs, waitsForConsumer: isLazy && !observed.pods.some((pod) => usesClaim(pod, member)) }
}

const usesClaim = (pod: KubeObject, { namespace, name }: Member): boolean =>
  pod.metadata.namespace === namespace &&
  ((pod.spec?.['volumes'] ?? []) as unknown[]).some((volume) => textAt(volume, 'persistentVolumeClaim', 'claimName') === name)

/** Ended pods are listed, but not counted. */
const isCounted = (pod: KubeObject): boolean =>
  !isTerminating(pod) && pod.status?.['phase'] !== 'Failed' && pod.status?.['phase'] !== 'Succeeded'

type Resource = NonNullable<NonNullable<HealthReport['summary']>['resources']>[number]

/** Unhealthy objects first, then flows, because the list is limited. */
function toResources(assessments: readonly Assessment[], loose: readonly KubeObject[]): Resource[] {
  const memberResources = assessments.map(({ member, object, verdict }): Resource => {
    const flow = object !== undefined && isFlow(member) ? toFlowReport(object) : undefined
    return { ...entry(member, verdict), ...(flow === undefined ? {} : { flow }) }
  })
  const pods = loose.map((pod) => entry({ kind: 'Pod', name: pod.metadata.name, namespace: pod.metadata.namespace ?? '' }, judgePod(pod)))
  return [...memberResources, ...pods].toSorted((a, b) => rankOf(a) - rankOf(b))
}

const rankOf = ({ ready, flow }: Resource): number => (!ready ? 0 : flow !== undefined ? 1 : 2)

const entry = ({ kind, name, namespace }: Pick<Member, 'kind' | 'name' | 'namespace'>, verdict: Verdict): Resource => ({
  kind,
  name,
  namespace,
  ready: verdict.state === 'ready',
  ...(verdict.state === 'ready' && verdict.message === '' ? {} : { message: toSentence(verdict) }),
})
