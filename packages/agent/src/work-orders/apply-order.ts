// Brings the objects of a work order into the cluster: checked like everybody's, under a manager of their own, and never part of
// a stack. What stands already and is ours gets only the fields that were sent; what is foreign is left alone.
import { failureOf } from '@brokkr/kube/failure.ts'
import { describeRef, type KubeObject, refOf } from '@brokkr/kube/object.ts'
import { inPhases } from '@brokkr/kube/order.ts'
import { API_RETRY, retrying } from '@brokkr/kube/retry.ts'
import { denied, grantsNeeded, refuse } from '../policy.ts'
import { placedObjects, readObjects } from '../reconcile/desired.ts'
import { OWNER_LABEL } from '../reconcile/marks.ts'
import { scopesOf } from '../reconcile/wanted.ts'
import { ATTEMPT_LABEL, failed, OPERATIONS_MANAGER, ORDER_LABEL, type Order, type OrderDeps, type OrderResult } from './order.ts'

/** Orders are of no generator, so what they may write beyond ordinary objects is granted to them under this name. */
const ordersName = '__work_orders__'

export type Prepared = { readonly ok: true; readonly objects: readonly KubeObject[] } | { readonly ok: false; readonly result: OrderResult }

/** Nothing is written yet. */
export async function prepareOrder(deps: OrderDeps, order: Order, signal: AbortSignal): Promise<Prepared> {
  const refused = (message: string): Prepared => ({ ok: false, result: failed(message, false) })
  const read = readObjects(order.yaml_content)
  if (!read.ok) return refused(read.problem.message)
  if (read.objects.length === 0) return refused('the work order holds no object')
  const { policy, defaultNamespace, tenants } = deps.settings
  const grants = tenants.grants[ordersName] ?? []
  const placed = placedObjects(read.objects, { scope: await scopesOf(deps, read.objects, signal), defaultNamespace })
  for (const { object, scope } of placed) {
    const refusal = refuse(object, policy, typeof scope === 'string' ? scope : undefined)
    if (refusal !== null) return refused(`${refusal.code}: ${refusal.message}`)
    const missing = grantsNeeded(object, typeof scope === 'string' ? scope : undefined).filter((grant) => !grants.includes(grant))
    if (missing.length > 0) return refused(`policy_denied: ${denied(object, missing, ordersName).message}`)
    if (typeof scope !== 'string') return { ok: false, result: failed(`${scope.code}: ${scope.message}`, scope.retryable) }
  }
  return { ok: true, objects: placed.map(({ object }) => object) }
}

/** Null: everything stands as sent. */
export async function applyOrder(
  deps: OrderDeps,
  order: Order,
  objects: readonly KubeObject[],
  signal: AbortSignal,
): Promise<OrderResult | null> {
  for (const { items } of inPhases(objects, (object) => object)) {
    for (const object of items) {
      const problem = await applyOne(deps, order, object, signal)
      if (problem !== null) return problem
    }
  }
  return null
}

async function applyOne(deps: OrderDeps, order: Order, object: KubeObject, signal: AbortSignal): Promise<OrderResult | null> {
  const ref = refOf(object)
  try {
    const live = await retrying(deps, API_RETRY, () => deps.kube.find(ref, { metadataOnly: true, signal }), signal)
    if (live !== undefined && !isOurs(live, deps.agentId))
      return failed(`foreign_object: ${describeRef(ref)} exists already and is not ours: choose another name`, false)
    const isOfOrder = live === undefined || live.metadata.labels?.[ORDER_LABEL] === order.id
    const wanted = isOfOrder ? marked(object, order, deps.agentId) : object
    await retrying(deps, API_RETRY, () => deps.kube.apply(wanted, { fieldManager: OPERATIONS_MANAGER, force: isOfOrder, signal }), signal)
    return null
  } catch (error) {
    signal.throwIfAborted()
    const { code, message } = failureOf(error)
    return failed(`${code}: ${describeRef(ref)}: ${message}`, isRetryable(code))
  }
}

/** What may be otherwise next time; what is refused for what it is stays refused. */
export const isRetryable = (code: ReturnType<typeof failureOf>['code']): boolean =>
  ['unavailable', 'conflict', 'field_conflict', 'namespace', 'crd', 'gone'].includes(code)

const isOurs = ({ metadata: { labels, annotations } }: KubeObject, agentId: string): boolean =>
  (labels?.[OWNER_LABEL] ?? annotations?.[OWNER_LABEL]) === agentId

export const marked = (object: KubeObject, order: Order, agentId: string): KubeObject => ({
  ...object,
  metadata: {
    ...object.metadata,
    labels: { ...object.metadata.labels, [ORDER_LABEL]: order.id, [ATTEMPT_LABEL]: String(order.attempt), [OWNER_LABEL]: agentId },
  },
})
