// Collects diagnostics of one deployment object: pod states, events, log tails. A part that cannot be read contains the error.
import { classifyFailure, type Kube, type KubeObject, type Member, numberAt, rowsAt, textAt } from '@brokkr/kube'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { isInScope, type Policy } from '../policy/policy.ts'
import { OBJECT_LABEL } from '../reconcile/plan/ownership-metadata.ts'
import { observe } from '../reporting/health/observe.ts'
import { readLogTail } from './log-tail.ts'
import { fitRows, fitTails, limits, toEventRow, toPodStatus } from './result-parts.ts'

export interface CollectDeps {
  readonly kube: Kube
  readonly agentId: string
  readonly policy: Policy
}
/** Members of the deployment object. */
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

export async function collectDiagnostics(deps: CollectDeps, subject: DiagnosticSubject, signal: AbortSignal): Promise<Diagnosis> {
  const pods = await orError(() => listPods(deps, subject, signal), signal)
  const result = Array.isArray(pods) ? pods : []
  const events = await orError(() => listEvents(deps, subject, result, signal), signal)
  const tails = await orError(() => readTails(deps, result, signal), signal)
  return {
    pod_statuses: Array.isArray(pods) ? fitRows(pods.map(toPodStatus), limits.statuses) : JSON.stringify(pods),
    events: Array.isArray(events) ? fitRows(events, limits.events) : JSON.stringify(events),
    log_tails: tails instanceof Map ? fitTails(tails, limits.tails) : JSON.stringify(tails),
  }
}

async function orError<T>(work: () => Promise<T>, signal: AbortSignal): Promise<T | { error: string }> {
  try {
    return await work()
  } catch (error) {
    signal.throwIfAborted()
    return { error: classifyFailure(error).code }
  }
}

/** Pods owned by a member, and pods with the label of the deployment object. */
async function listPods(deps: CollectDeps, { stackId, objectId, members }: DiagnosticSubject, signal: AbortSignal): Promise<KubeObject[]> {
  const observation = await observe(deps, members, stackId, signal)
  const uids = new Set(members.flatMap(({ uid }) => uid ?? []))
  const leadsToMember = (object: KubeObject | undefined, hops: number): boolean =>
    object !== undefined &&
    (uids.has(object.metadata.uid ?? '') ||
      (hops > 0 &&
        (object.metadata.ownerReferences ?? []).some(({ uid }) => uids.has(uid) || leadsToMember(observation.between.get(uid), hops - 1))))
  const result = observation.pods
    .filter((pod) => pod.metadata.labels?.[OBJECT_LABEL] === objectId || leadsToMember(pod, hopsMax))
    .slice(0, podsMax)
  // The health projection of a pod omits fields that are needed here.
  const whole = await mapBounded(
    result,
    parallel,
    ({ metadata: { name, namespace } }) => deps.kube.find({ ...POD, name, namespace }, { signal }),
    signal,
  )
  return whole.filter((pod) => pod !== undefined)
}

async function listEvents({ kube, policy }: CollectDeps, { members }: DiagnosticSubject, pods: readonly KubeObject[], signal: AbortSignal) {
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
      const rows = ours.map(toEventRow).toSorted((a, b) => ((a.last_timestamp ?? '') < (b.last_timestamp ?? '') ? 1 : -1))
      return rows.slice(0, limits.eventsPerNamespace)
    },
    signal,
  )
  return lists.flat()
}

async function readTails(deps: CollectDeps, pods: readonly KubeObject[], signal: AbortSignal): Promise<Map<string, string>> {
  const containers = pods.flatMap((pod) =>
    rowsAt(pod, 'status', 'containerStatuses').flatMap((container) => {
      const name = textAt(container, 'name') ?? ''
      const one = { pod, name, previous: false }
      return (numberAt(container, 'restartCount') ?? 0) > 0 ? [one, { ...one, previous: true }] : [one]
    }),
  )
  const tails = await mapBounded(
    containers,
    parallel,
    async ({ pod, name, previous }) => {
      const key = `${pod.metadata.name}/${name}${previous ? '#previous' : ''}`
      const of = { container: name, previous, lines: tailLines, bytes: 2 * limits.tail }
      const tail = await orError(() => readLogTail(deps.kube, pod, of, signal), signal)
      return [key, typeof tail === 'string' ? tail : `[not readable: ${tail.error}]`] as const
    },
    signal,
  )
  return new Map(tails)
}
