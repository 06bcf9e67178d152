// Flow order: sets or removes the annotations that steer a flow. They have the id of the order, so that a second attempt repeats nothing.
// Only a flow of the named stack is changed.

import {
  type FlowAction,
  FlowOrderContent,
  flowApiVersion,
  pausedAnnotation,
  toFlowAnnotations,
} from '@brokkr/contract/flows/flow-order.ts'
import { API_RETRY, fieldsAt, type KubeObject, type ObjectRef, retrying } from '@brokkr/kube'
import { isInScope } from '../policy/policy.ts'
import { FIELD_MANAGER, OWNER_LABEL, STACK_LABEL } from '../reconcile/plan/ownership-metadata.ts'
import { OPERATIONS_MANAGER, type Order, type OrderDeps, type OrderResult, toFailure, toSuccess } from './order.ts'

export async function executeFlowOrder(deps: OrderDeps, order: Order, signal: AbortSignal): Promise<OrderResult> {
  const content = parseContent(order.yaml_content)
  if (content === null) return toFailure('the work order holds no valid order for a flow', false)
  const { flow, order: action } = content
  const ref = { apiVersion: flowApiVersion, kind: flow.kind, namespace: flow.namespace, name: flow.name }
  if (!isInScope(flow.namespace, deps.settings.policy))
    return toFailure(`outside_scope: the policy of the agent does not allow namespace ${flow.namespace}`, false)
  // A conflict (409) means that another object has the name now, so ownership is checked again.
  return retrying(deps, API_RETRY, () => steerOnce(deps, { ref, stackId: flow.stack_id, id: order.id, action }, signal), signal)
}

function parseContent(text: string): FlowOrderContent | null {
  try {
    return FlowOrderContent.parse(JSON.parse(text))
  } catch {
    return null
  }
}

interface Steering {
  readonly ref: ObjectRef
  readonly stackId: string
  readonly id: string
  readonly action: FlowAction
}

async function steerOnce(deps: OrderDeps, { ref, stackId, id, action }: Steering, signal: AbortSignal): Promise<OrderResult> {
  const what = `${ref.kind} ${ref.namespace ?? ''}/${ref.name}`
  const live = await deps.kube.find(ref, { metadataOnly: true, signal })
  if (live === undefined) return toFailure(`${what} does not exist`, false)
  const { labels = {}, uid } = live.metadata
  if (labels[OWNER_LABEL] !== deps.agentId || labels[STACK_LABEL] !== stackId)
    return toFailure(`foreign_object: ${what} is not delivered by this agent for this stack`, false)
  if (action.action === 'resume' && isInManifest(live, pausedAnnotation))
    return toFailure(`the manifest of the stack pauses ${what}: remove the annotation ${pausedAnnotation} there`, false)
  const body = { metadata: { uid, annotations: toFlowAnnotations(action, id) } }
  await deps.kube.patch(ref, { type: 'merge', body }, { fieldManager: OPERATIONS_MANAGER, signal })
  return toSuccess(`${action.action} of ${what} is requested`)
}

/** The next delivery would set the annotation again. */
const isInManifest = (live: KubeObject, key: string): boolean =>
  (live.metadata.managedFields ?? []).some(
    ({ manager, fieldsV1 }) => manager === FIELD_MANAGER && fieldsAt(fieldsV1, 'f:metadata', 'f:annotations', `f:${key}`) !== undefined,
  )
