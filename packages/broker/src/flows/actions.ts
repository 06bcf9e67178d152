// Steers a flow: one work order for the agent of its cluster, recorded with the flow, in one transaction.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { FlowOrder } from '@brokkr/contract/flows/flow.ts'
import { type FlowAction, type FlowOrderContent, flowWorkType } from '@brokkr/contract/flows/flow-order.ts'
import * as agents from '../agents/store/agents.ts'
import type { Actor } from '../audit/rules.ts'
import { type CreateDeps, insertWorkOrder } from '../work-orders/actions/work-orders.ts'
import { requireAction, toAuditDetails } from './rules.ts'
import * as flowOrders from './store/flow-orders.ts'
import * as flows from './store/flows.ts'

/** An agent that stays away must not collect orders without end. */
const openOrdersMax = 20
/** No retry: it could run after a newer order and undo it. The agent repeats failed calls of the Kubernetes API within its attempt. */
const limits = { max_retries: 0, backoff_seconds: 5, claim_timeout_seconds: 300 }

export async function createFlowOrder(
  deps: CreateDeps,
  { flowId, action, actor }: { flowId: string; action: FlowAction; actor: Actor },
): Promise<FlowOrder> {
  const order = await deps.sql.begin(async (sql) => {
    const flow = await flows.get(sql, { id: flowId })
    if (flow === null) throw flowNotFound()
    requireAction(flow, action)
    // Agent before flow, as the deletion of an agent locks them. Orders of one flow are counted one after another.
    const isLive = (await agents.holdLive(sql, { ids: [flow.agent_id] })).length > 0
    if (!isLive || (await flows.lock(sql, { id: flowId })) === 0) throw flowNotFound()
    const { open } = await flowOrders.countOpen(sql, { flow_id: flowId })
    if (open >= openOrdersMax)
      throw new ApiError('limit_exceeded', `the flow has ${open} open orders: wait until its agent has carried them out`, {
        details: { limit: openOrdersMax },
      })
    const { kind, namespace, name, stack_id, agent_id } = flow
    const content: FlowOrderContent = { flow: { kind, namespace, name, stack_id }, order: action }
    const created = await insertWorkOrder(sql, deps, {
      request: { ...limits, match: 'any', agent_ids: [agent_id], labels: [], annotations: {} },
      workType: flowWorkType,
      yaml: JSON.stringify(content),
      actor,
      details: { flow_id: flowId, action: action.action, ...toAuditDetails(action), kind, namespace, name, stack_id, agent_id },
    })
    await flowOrders.insert(sql, { work_order_id: created.id, flow_id: flowId, action: action.action })
    return created
  })
  deps.wakeFeed()
  const { id, status, created_at } = order
  return { id, flow_id: flowId, action: action.action, status, message: null, created_at, finished_at: null }
}

export const flowNotFound = (): ApiError => new ApiError('flow_not_found', 'no agent reports a flow with this id')
