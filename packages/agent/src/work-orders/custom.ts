// A custom order: everything in it is applied; where there are Jobs, the order ends as they end.
import { rowsAt, textAt } from '@brokkr/kube/fields.ts'
import { removeAndWait } from '@brokkr/kube/gone.ts'
import { describeRef, groupOf, type KubeObject, type ObjectRef, refOf, selectorOf } from '@brokkr/kube/object.ts'
import { API_RETRY, retrying } from '@brokkr/kube/retry.ts'
import { OWNER_LABEL } from '../reconcile/marks.ts'
import { applyOrder, prepareOrder } from './apply-order.ts'
import { ATTEMPT_LABEL, failed, ORDER_LABEL, type Order, type OrderDeps, type OrderResult, succeeded } from './order.ts'
import { type PodsOf, tellOutput } from './output.ts'

const JOB = { apiVersion: 'batch/v1', kind: 'Job' }

export async function carryOutCustom(deps: OrderDeps, order: Order, signal: AbortSignal): Promise<OrderResult> {
  const prepared = await prepareOrder(deps, order, signal)
  if (!prepared.ok) return prepared.result
  const jobs = prepared.objects.filter(({ apiVersion, kind }) => kind === 'Job' && groupOf(apiVersion) === 'batch').map(refOf)
  await removeEarlierJobs(deps, order, signal)
  const problem = await applyOrder(deps, order, prepared.objects, signal)
  if (problem !== null) return problem
  if (jobs.length === 0) return succeeded(`applied ${prepared.objects.length} object${prepared.objects.length === 1 ? '' : 's'}`)
  const result = await watchJobs(deps, jobs, signal)
  await tellOutput(deps, order, jobs.map(podsOf), signal)
  return result
}

/** What comes after a Job that failed is not waited for. */
async function watchJobs(deps: OrderDeps, jobs: readonly ObjectRef[], signal: AbortSignal): Promise<OrderResult> {
  for (const job of jobs) {
    const end = await jobEnd(deps, job, signal)
    if (end !== 'Complete') return failed(`${describeRef(job)} failed: ${end}`, false)
  }
  return succeeded(`${jobs.length} job${jobs.length === 1 ? '' : 's'} completed`)
}

const podsOf = ({ namespace, name }: ObjectRef): PodsOf => ({
  namespace,
  labelSelector: selectorOf({ 'batch.kubernetes.io/job-name': name }),
})

/** A Job cannot be run again, so an attempt begins without those of the attempts before it. */
async function removeEarlierJobs(deps: OrderDeps, order: Order, signal: AbortSignal): Promise<void> {
  if (order.attempt <= 1) return
  const labelSelector = selectorOf({ [ORDER_LABEL]: order.id, [OWNER_LABEL]: deps.agentId })
  const { items } = await retrying(deps, API_RETRY, () => deps.kube.list(JOB, { labelSelector, metadataOnly: true, signal }), signal)
  for (const { metadata } of items.filter((job) => job.metadata.labels?.[ATTEMPT_LABEL] !== String(order.attempt)))
    await removeAndWait(
      deps,
      { ref: { ...JOB, namespace: metadata.namespace, name: metadata.name }, uid: metadata.uid ?? '' },
      { signal, limitMs: 60_000 },
    )
}

/** `Complete`, or why not. */
async function jobEnd(deps: OrderDeps, ref: ObjectRef, signal: AbortSignal): Promise<string> {
  for (;;) {
    const job = await retrying(deps, API_RETRY, () => deps.kube.find(ref, { signal }), signal)
    if (job === undefined) return 'it was deleted while it ran'
    const end = endOf(job)
    if (end !== null) return end
    await deps.clock.sleep(deps.checkMs, signal)
  }
}

export function endOf(job: KubeObject): string | null {
  const held = rowsAt(job, 'status', 'conditions').filter((condition) => condition['status'] === 'True')
  if (held.some(({ type }) => type === 'Complete')) return 'Complete'
  const why = held.find(({ type }) => type === 'Failed')
  return why === undefined ? null : [textAt(why, 'reason'), textAt(why, 'message')].filter(Boolean).join(': ') || 'Failed'
}
