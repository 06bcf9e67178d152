// Claims a pending work order for an agent. One statement decides, so that of many concurrent claims one wins.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { WorkOrder } from '@brokkr/contract/work-orders/work-order.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import type { Seal } from '../../seal.ts'
import { enqueueDeliveries } from '../../webhooks/delivery/enqueue.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import type { WorkOrderMetrics } from '../metrics.ts'
import { openOrder } from '../open-contents.ts'
import { workOrderClaimed } from '../rules/work-order-events.ts'
import * as workOrderClaims from '../store/work-order-claims.ts'

interface ClaimDeps {
  readonly sql: Sql
  readonly seal: Seal
  readonly subscriptionCache: SubscriptionCache
  readonly workOrders: WorkOrderMetrics
  readonly wakeFeed: () => void
}

export async function claimWorkOrder(
  deps: ClaimDeps,
  { id, agentId, actor }: { id: string; agentId: string; actor: Actor },
): Promise<WorkOrder> {
  if (actor.kind === 'agent' && actor.id !== agentId)
    throw new ApiError('agent_pak_mismatch', 'an agent claims work orders for itself only')
  const row = await deps.sql.begin(async (sql) => {
    const claimed = await workOrderClaims.claim(sql, { id, agent_id: agentId })
    if (claimed === null)
      throw new ApiError('work_order_not_claimable', 'the work order does not exist, is not pending, or does not target this agent')
    await enqueueDeliveries(sql, deps.subscriptionCache, [workOrderClaimed(claimed)])
    const { work_type, attempt } = claimed
    const details = { work_type, agent_id: agentId, attempt }
    return sql.commitWith(
      (tx) => [recordAuditEntry(tx, { actor, action: 'workorder.claimed', resource: { type: 'work_order', id }, details })],
      () => claimed,
    )
  })
  deps.wakeFeed()
  deps.workOrders.observeClaim(row)
  return openOrder(deps.seal, row)
}
