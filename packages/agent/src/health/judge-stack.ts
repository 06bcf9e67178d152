// The health of a stack from what was observed: a verdict for each member, its pods counted in, and the summary that the broker
// keeps. Pure.
import type { HealthReport } from '@brokkr/contract/health.ts'
import type { Member } from '@brokkr/kube/applyset.ts'
import { isTrue } from '@brokkr/kube/conditions.ts'
import { textAt } from '@brokkr/kube/fields.ts'
import { flowOf } from '@brokkr/kube/health/dataflow.ts'
import { judgeHealth } from '@brokkr/kube/health/index.ts'
import { memberAbove } from '@brokkr/kube/health/owner-chain.ts'
import { judgePod } from '@brokkr/kube/health/pod.ts'
import { type SetStatus, statusOf, summarise } from '@brokkr/kube/health/summary.ts'
import { type HealthContext, unknown, type Verdict } from '@brokkr/kube/health/verdict.ts'
import { groupKindText, identityKey, isTerminating, type KubeObject } from '@brokkr/kube/object.ts'
import { OBJECT_LABEL } from '../reconcile/marks.ts'
import { isWorkload, type Observation, unreadKey } from './observe.ts'

export interface StackInput {
  readonly members: readonly Member[]
  readonly objectId: string
  readonly observed: Observation
  readonly nowMs: number
  /** Since when this member says the same thing while it progresses. */
  readonly since: (key: string, says: string) => number
}
export type StackHealth = Pick<HealthReport, 'summary'> & { readonly status: 'healthy' | 'degraded' | 'failing' | 'unknown' }

interface Judged {
  readonly member: Member
  readonly object: KubeObject | undefined
  readonly verdict: Verdict
}
const conditionsMax = 50
const resourcesMax = 100
const messageCharsMax = 500

/** What is not well of what belongs to the stack, by uid. */
export type UnwellObjects = ReadonlyMap<string, { readonly health: SetStatus; readonly message: string }>

export function judgeStack(input: StackInput): { readonly health: StackHealth; readonly unwell: UnwellObjects } {
  const pods = podsOf(input)
  const judged = input.members.map((member) => judgeMember(member, input, pods))
  const loose = pods.get(looseKey) ?? []
  const verdicts = [...judged.map(({ verdict }) => verdict), ...loose.map((pod) => judgePod(pod))]
  const counted = [...pods.values()].flat().filter(isCounted)
  const { status, progressing } = summarise(verdicts)
  const health: StackHealth = {
    status,
    summary: {
      pods_ready: counted.filter((pod) => isTrue(pod, 'Ready')).length,
      pods_total: counted.length,
      conditions: [...new Set(verdicts.filter(({ state }) => state !== 'ready').map(({ reason }) => reason))]
        .toSorted()
        .slice(0, conditionsMax),
      resources: resourcesOf(judged, loose),
      progressing,
    },
  }
  return { health, unwell: unwellOf(judged, [...pods.values()].flat()) }
}

function unwellOf(judged: readonly Judged[], pods: readonly KubeObject[]): UnwellObjects {
  const own = judged.map(({ member, object, verdict }) => ({ uid: object?.metadata.uid ?? member.uid, verdict }))
  const theirs = pods.map((pod) => ({ uid: pod.metadata.uid, verdict: judgePod(pod) }))
  const rows = [...own, ...theirs].flatMap(({ uid, verdict }) =>
    uid === undefined || verdict.state === 'ready' ? [] : [[uid, { health: statusOf(verdict), message: sentenceOf(verdict) }] as const],
  )
  return new Map(rows)
}

const sentenceOf = ({ reason, message }: Verdict): string => `${reason}${message ? `: ${message}` : ''}`.slice(0, messageCharsMax)

const looseKey = ''

/** By the key of the member above; under no key those that only bear the mark of the revision. */
function podsOf({ members, objectId, observed }: StackInput): Map<string, KubeObject[]> {
  const above = new Map<string, string>()
  for (const member of members) {
    const uid = observed.objects.get(identityKey(member))?.metadata.uid
    if (uid !== undefined && isWorkload(member)) above.set(uid, identityKey(member))
  }
  const found = new Map<string, KubeObject[]>()
  for (const pod of observed.pods) {
    if (above.has(pod.metadata.uid ?? '')) continue
    const uid = memberAbove(
      pod,
      (owner) => above.has(owner),
      (owner) => observed.between.get(owner),
    )
    const key = uid === undefined ? (pod.metadata.labels?.[OBJECT_LABEL] === objectId ? looseKey : undefined) : above.get(uid)
    if (key !== undefined) found.set(key, [...(found.get(key) ?? []), pod])
  }
  return found
}

function judgeMember(member: Member, input: StackInput, pods: ReadonlyMap<string, readonly KubeObject[]>): Judged {
  const { observed, since } = input
  const key = identityKey(member)
  const object = observed.objects.get(key)
  const why = object ? undefined : (observed.unread.get(unreadKey(member, member.namespace)) ?? observed.unread.get(unreadKey(member, '')))
  if (why !== undefined) return { member, object, verdict: unknown(why, 'it cannot be read') }
  const podsUnread = isWorkload(member) && observed.unread.get(unreadKey({ group: '', kind: 'Pod' }, member.namespace))
  const context = contextOf(member, object, input, pods.get(key) ?? [])
  const first = judgeHealth(object, context)
  const unchangedSinceMs = since(key, first.state === 'progressing' ? `${first.reason} ${first.message}` : '')
  const verdict = first.state === 'progressing' ? judgeHealth(object, { ...context, unchangedSinceMs }) : first
  // What nobody could look at must not pass for well.
  if (podsUnread && verdict.state === 'ready') return { member, object, verdict: unknown(podsUnread, 'its pods cannot be read') }
  return { member, object, verdict }
}

function contextOf(member: Member, object: KubeObject | undefined, input: StackInput, pods: readonly KubeObject[]): HealthContext {
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

/** Those that have ended are history: they are listed, not counted. */
const isCounted = (pod: KubeObject): boolean =>
  !isTerminating(pod) && pod.status?.['phase'] !== 'Failed' && pod.status?.['phase'] !== 'Succeeded'

type Resource = NonNullable<NonNullable<HealthReport['summary']>['resources']>[number]

/** What is not well comes first, because the list has an end. */
function resourcesOf(judged: readonly Judged[], loose: readonly KubeObject[]): Resource[] {
  const own = judged.map(({ member, object, verdict }): Resource => {
    const flow = /^DataFlow(Cron)?\.dataflow\.dataflow\.io$/.test(groupKindText(member)) && object ? flowOf(object) : undefined
    return { ...entry(member, verdict), ...(flow === undefined ? {} : { flow }) }
  })
  const pods = loose.map((pod) => entry({ kind: 'Pod', name: pod.metadata.name, namespace: pod.metadata.namespace ?? '' }, judgePod(pod)))
  return [...own, ...pods].toSorted((a, b) => Number(a.ready) - Number(b.ready)).slice(0, resourcesMax)
}

const entry = ({ kind, name, namespace }: Pick<Member, 'kind' | 'name' | 'namespace'>, verdict: Verdict): Resource => ({
  kind,
  name,
  namespace,
  ready: verdict.state === 'ready',
  ...(verdict.state === 'ready' && verdict.message === '' ? {} : { message: sentenceOf(verdict) }),
})
