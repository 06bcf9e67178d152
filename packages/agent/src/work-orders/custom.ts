// Custom order: applies all objects; if there are Jobs, the order ends with them.

import {
  API_RETRY,
  deleteAndWait,
  describeRef,
  groupOf,
  type KubeObject,
  type ObjectRef,
  refOf,
  retrying,
  rowsAt,
  selectorOf,
  type Target,
  textAt,
} from '@brokkr/kube'
import { isInScope } from '../policy/policy.ts'
import { applyOrder, isOfOrder, prepareOrder } from './apply-order.ts'
import { ATTEMPT_LABEL, type Order, type OrderDeps, type OrderResult, toFailure, toSuccess } from './order.ts'
import { type PodSelector, sendOrderOutput } from './output.ts'

const JOB = { apiVersion: 'batch/v1', kind: 'Job' }

export async function executeCustom(deps: OrderDeps, order: Order, signal: AbortSignal): Promise<OrderResult> {
  const prepared = await prepareOrder(deps, order, signal)
  if (!prepared.ok) return prepared.result
  const jobs = prepared.objects.filter(({ apiVersion, kind }) => kind === 'Job' && groupOf(apiVersion) === 'batch').map(refOf)
  await removeEarlierJobs(deps, order, jobs, signal)
  const problem = await applyOrder(deps, order, prepared.objects, signal)
  if (problem !== null) return problem
  if (jobs.length === 0) return toSuccess(`applied ${prepared.objects.length} object${prepared.objects.length === 1 ? '' : 's'}`)
  const result = await watchJobs(deps, jobs, signal)
  await sendOrderOutput(deps, order, jobs.map(toPodSelector), signal)
  return result
}

/** Does not wait for the Jobs after a failed one. */
async function watchJobs(deps: OrderDeps, jobs: readonly ObjectRef[], signal: AbortSignal): Promise<OrderResult> {
  for (const job of jobs) {
    const end = await jobEnd(deps, job, signal)
    if (end !== 'Complete') return toFailure(`${describeRef(job)} failed: ${end}`, false)
  }
  return toSuccess(`${jobs.length} job${jobs.length === 1 ? '' : 's'} completed`)
}

const toPodSelector = ({ namespace, name }: ObjectRef): PodSelector => ({
  namespace,
  labelSelector: selectorOf({ 'batch.kubernetes.io/job-name': name }),
})

/**
 * A Job cannot run again, so an attempt deletes those of earlier attempts: the recorded ones, and one under a name of this order
 * that an earlier process created and did not record. Nothing is listed.
 */
async function removeEarlierJobs(deps: OrderDeps, order: Order, jobs: readonly ObjectRef[], signal: AbortSignal): Promise<void> {
  if (order.attempt <= 1) return
  const recorded = await deps.claimed.created(order.id, signal)
  const earlier = recorded.filter(({ kind, attempt }) => kind === JOB.kind && attempt !== order.attempt)
  for (const { uid, namespace, name } of earlier)
    if (isInScope(namespace ?? '', deps.settings.policy)) await removeJob(deps, { ref: { ...JOB, namespace, name }, uid }, signal)
  for (const ref of jobs) {
    const live = await retrying(deps, API_RETRY, () => deps.kube.find(ref, { metadataOnly: true, signal }), signal)
    const uid = live?.metadata.uid
    if (live === undefined || uid === undefined || !isOfOrder(live, order, deps.agentId)) continue
    if (live.metadata.labels?.[ATTEMPT_LABEL] !== String(order.attempt)) await removeJob(deps, { ref, uid }, signal)
  }
}

const removeJob = (deps: OrderDeps, target: Target, signal: AbortSignal): Promise<void> =>
  deleteAndWait(deps, target, { signal, limitMs: 60_000 })

/** `Complete`, or the reason of the failure. */
async function jobEnd(deps: OrderDeps, ref: ObjectRef, signal: AbortSignal): Promise<string> {
  for (;;) {
    const job = await retrying(deps, API_RETRY, () => deps.kube.find(ref, { signal }), signal)
    if (job === undefined) return 'it was deleted while it ran'
    const end = toJobEnd(job)
    if (end !== null) return end
    await deps.clock.sleep(deps.checkMs, signal)
  }
}

export function toJobEnd(job: KubeObject): string | null {
  const held = rowsAt(job, 'status', 'conditions').filter((condition) => condition['status'] === 'True')
  if (held.some(({ type }) => type === 'Complete')) return 'Complete'
  const why = held.find(({ type }) => type === 'Failed')
  return why === undefined ? null : [textAt(why, 'reason'), textAt(why, 'message')].filter(Boolean).join(': ') || 'Failed'
}
