// Applies the objects of a work order: same checks as for stacks, own field manager, never part of a stack. Owned objects get only the
// fields that were sent; foreign objects are not changed.

import { API_RETRY, classifyFailure, describeRef, groupByPhase, groupOf, type KubeObject, refOf, retrying } from '@brokkr/kube'
import { findPolicyRefusal, grantsNeeded, toGrantRefusal } from '../policy/policy.ts'
import { readScopes } from '../reconcile/plan/build-desired.ts'
import { parseObjects, placeObjects } from '../reconcile/plan/desired.ts'
import { OWNER_LABEL } from '../reconcile/plan/ownership-metadata.ts'
import { getGrants, workOrdersGenerator } from '../reconcile/stack-generators.ts'
import { ATTEMPT_LABEL, OPERATIONS_MANAGER, ORDER_LABEL, type Order, type OrderDeps, type OrderResult, toFailure } from './order.ts'

export type PreparedOrder =
  | { readonly ok: true; readonly objects: readonly KubeObject[] }
  | { readonly ok: false; readonly result: OrderResult }

/** Checks only, no writes. */
export async function prepareOrder(deps: OrderDeps, order: Order, signal: AbortSignal): Promise<PreparedOrder> {
  const refused = (message: string): PreparedOrder => ({ ok: false, result: toFailure(message, false) })
  const read = parseObjects(order.yaml_content)
  if (!read.ok) return refused(read.problem.message)
  if (read.objects.length === 0) return refused('the work order holds no object')
  const { policy, defaultNamespace, tenants } = deps.settings
  const grants = getGrants(workOrdersGenerator, tenants)
  const placed = placeObjects(read.objects, { scope: await readScopes(deps, read.objects, signal), defaultNamespace })
  for (const { object, scope } of placed) {
    const refusal = findPolicyRefusal(object, policy, typeof scope === 'string' ? scope : undefined)
    if (refusal !== null) return refused(`${refusal.code}: ${refusal.message}`)
    const missing = grantsNeeded(object, typeof scope === 'string' ? scope : undefined).filter((grant) => !grants.includes(grant))
    if (missing.length > 0) return refused(`policy_denied: ${toGrantRefusal(object, missing, workOrdersGenerator.generatorId).message}`)
    if (typeof scope !== 'string') return { ok: false, result: toFailure(`${scope.code}: ${scope.message}`, scope.retryable) }
  }
  return { ok: true, objects: placed.map(({ object }) => object) }
}

/** Null: all objects are applied. */
export async function applyOrder(
  deps: OrderDeps,
  order: Order,
  objects: readonly KubeObject[],
  signal: AbortSignal,
): Promise<OrderResult | null> {
  for (const { items } of groupByPhase(objects, (object) => object)) {
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
    // A conflict (409) repeats the whole step, so that ownership is checked again.
    const written = await retrying(deps, API_RETRY, () => writeOnce(deps, order, object, signal), signal)
    if (written === 'foreign')
      return toFailure(`foreign_object: ${describeRef(ref)} exists already and is not ours: choose another name`, false)
    if (written !== null && isJob(object)) await retrying(deps, API_RETRY, () => deps.claimed.addCreated(order, written, signal), signal)
    return null
  } catch (error) {
    signal.throwIfAborted()
    const { code, message } = classifyFailure(error)
    return toFailure(`${code}: ${describeRef(ref)}: ${message}`, isRetryable(code))
  }
}

/**
 * Gives what belongs to this order as it was written, and null for an existing object of a stack. An absent object is created and
 * an existing one is changed under its UID, so an object that another client creates in between is never overwritten.
 */
async function writeOnce(deps: OrderDeps, order: Order, object: KubeObject, signal: AbortSignal): Promise<KubeObject | 'foreign' | null> {
  const live = await deps.kube.find(refOf(object), { metadataOnly: true, signal })
  const options = { fieldManager: OPERATIONS_MANAGER, signal }
  if (live === undefined) return deps.kube.create(markOrderObject(object, order, deps.agentId), options)
  if (!isOurs(live, deps.agentId)) return 'foreign'
  const isOrders = live.metadata.labels?.[ORDER_LABEL] === order.id
  if (isOrders && !isOfOrder(live, order, deps.agentId)) return 'foreign'
  const wanted = isOrders ? markOrderObject(object, order, deps.agentId) : object
  const sameObject = { ...wanted, metadata: { ...wanted.metadata, uid: live.metadata.uid ?? '' } }
  const { object: written } = await deps.kube.apply(sameObject, { ...options, force: isOrders })
  return isOrders ? written : null
}

const isJob = ({ apiVersion, kind }: KubeObject): boolean => kind === 'Job' && groupOf(apiVersion) === 'batch'

/** Labels can be copied; an object that this agent wrote for the order also has fields of its field manager. */
export const isOfOrder = (live: KubeObject, order: Pick<Order, 'id'>, agentId: string): boolean =>
  isOurs(live, agentId) &&
  live.metadata.labels?.[ORDER_LABEL] === order.id &&
  (live.metadata.managedFields ?? []).some(({ manager }) => manager === OPERATIONS_MANAGER)

/** Failures that a retry may resolve. */
export const isRetryable = (code: ReturnType<typeof classifyFailure>['code']): boolean =>
  ['unavailable', 'conflict', 'field_conflict', 'namespace', 'crd', 'gone'].includes(code)

const isOurs = ({ metadata: { labels, annotations } }: KubeObject, agentId: string): boolean =>
  (labels?.[OWNER_LABEL] ?? annotations?.[OWNER_LABEL]) === agentId

export const markOrderObject = (object: KubeObject, order: Order, agentId: string): KubeObject => ({
  ...object,
  metadata: {
    ...object.metadata,
    labels: { ...object.metadata.labels, [ORDER_LABEL]: order.id, [ATTEMPT_LABEL]: String(order.attempt), [OWNER_LABEL]: agentId },
  },
})
