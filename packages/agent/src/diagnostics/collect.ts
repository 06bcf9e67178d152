// Looks closely at what one revision deployed: the state of its pods, the events around it, the end of its logs. A part that
// cannot be read says why, and the others are told all the same.
import type { Member } from '@brokkr/kube/applyset.ts'
import { failureOf } from '@brokkr/kube/failure.ts'
import { numberAt, rowsAt, textAt } from '@brokkr/kube/fields.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import type { KubeObject } from '@brokkr/kube/object.ts'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { observe } from '../health/observe.ts'
import { isInScope, type Policy } from '../policy.ts'
import { OBJECT_LABEL } from '../reconcile/marks.ts'
import { logTail } from './log-tail.ts'
import { eventOf, fitRows, fitTails, limits, podStatusOf } from './parts.ts'

export interface CollectDeps {
  readonly kube: Kube
  readonly agentId: string
  readonly policy: Policy
}
/** What the revision put into the cluster. */
export interface DiagnosticSubject {
  readonly stackId: string
  readonly objectId: string
  readonly members: readonly Member[]
}
export interface Diagnosis {
  readonly pod_statuses: string
  readonly events: string
  readonly log_tails: string
}
const POD = { apiVersion: 'v1', kind: 'Pod' }
const tailLines = 100
const parallel = 4
const podsMax = 100
const hopsMax = 4

export async function collect(deps: CollectDeps, subject: DiagnosticSubject, signal: AbortSignal): Promise<Diagnosis> {
  const pods = await orError(() => podsOf(deps, subject, signal), signal)
  const found = Array.isArray(pods) ? pods : []
  const events = await orError(() => eventsOf(deps, subject, found, signal), signal)
  const tails = await orError(() => tailsOf(deps, found, signal), signal)
  return {
    pod_statuses: Array.isArray(pods) ? fitRows(pods.map(podStatusOf), limits.statuses) : JSON.stringify(pods),
    events: Array.isArray(events) ? fitRows(events, limits.events) : JSON.stringify(events),
    log_tails: tails instanceof Map ? fitTails(tails, limits.tails) : JSON.stringify(tails),
  }
}

async function orError<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T | { error: string }> {
  try {
    return await work()
  } catch (error) {
    signal.throwIfAborted()
    return { error: failureOf(error).code }
  }
}

/** Those whose owners lead to a member, and those that carry the revision's mark themselves. */
async function podsOf(deps: CollectDeps, { stackId, objectId, members }: DiagnosticSubject, signal: AbortSignal): Promise<KubeObject[]> {
  const seen = await observe(deps, members, stackId, signal)
  const uids = new Set(members.flatMap(({ uid }) => uid ?? []))
  const leadsToMember = (object: KubeObject | undefined, hops: number): boolean =>
    object !== undefined &&
    (uids.has(object.metadata.uid ?? '') ||
      (hops > 0 &&
        (object.metadata.ownerReferences ?? []).some(({ uid }) => uids.has(uid) || leadsToMember(seen.between.get(uid), hops - 1))))
  const found = seen.pods.filter((pod) => pod.metadata.labels?.[OBJECT_LABEL] === objectId || leadsToMember(pod, hopsMax)).slice(0, podsMax)
  // What health keeps of a pod is less than what is asked for here.
  const whole = await mapBounded(
    found,
    parallel,
    ({ metadata: { name, namespace } }) => deps.kube.find({ ...POD, name, namespace }, { signal }),
    signal,
  )
  return whole.filter((pod) => pod !== undefined)
}

async function eventsOf({ kube, policy }: CollectDeps, { members }: DiagnosticSubject, pods: readonly KubeObject[], signal: AbortSignal) {
  const about = new Set([...members.flatMap(({ uid }) => uid ?? []), ...pods.flatMap(({ metadata }) => metadata.uid ?? [])])
  const names = new Set(members.map(({ kind, name }) => `${kind} ${name}`))
  const namespaces = [...new Set(members.map(({ namespace }) => namespace))].filter(
    (namespace) => namespace !== '' && isInScope(namespace, policy),
  )
  const lists = await mapBounded(
    namespaces,
    parallel,
    async (namespace) => {
      const { items } = await kube.list({ apiVersion: 'v1', kind: 'Event' }, { namespace, signal })
      const ours = items.filter(
        (event) =>
          about.has(textAt(event, 'involvedObject', 'uid') ?? '') ||
          names.has(`${textAt(event, 'involvedObject', 'kind')} ${textAt(event, 'involvedObject', 'name')}`),
      )
      const rows = ours.map(eventOf).toSorted((a, b) => ((a.last_timestamp ?? '') < (b.last_timestamp ?? '') ? 1 : -1))
      return rows.slice(0, limits.eventsPerNamespace)
    },
    signal,
  )
  return lists.flat()
}

async function tailsOf(deps: CollectDeps, pods: readonly KubeObject[], signal: AbortSignal): Promise<Map<string, string>> {
  const wanted = pods.flatMap((pod) =>
    rowsAt(pod, 'status', 'containerStatuses').flatMap((container) => {
      const name = textAt(container, 'name') ?? ''
      const one = { pod, name, previous: false }
      return (numberAt(container, 'restartCount') ?? 0) > 0 ? [one, { ...one, previous: true }] : [one]
    }),
  )
  const tails = await mapBounded(
    wanted,
    parallel,
    async ({ pod, name, previous }) => {
      const key = `${pod.metadata.name}/${name}${previous ? '#previous' : ''}`
      const of = { container: name, previous, lines: tailLines, bytes: 2 * limits.tail }
      const tail = await orError(() => logTail(deps.kube, pod, of, signal), signal)
      return [key, typeof tail === 'string' ? tail : `[not readable: ${tail.error}]`] as const
    },
    signal,
  )
  return new Map(tails)
}
