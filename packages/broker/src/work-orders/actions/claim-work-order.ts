// Claims a pending work order for an agent. One statement decides, so that of many concurrent claims one wins.

import { ApiError } from '@brokkr/contract/errors.ts'
import type { WorkOrder } from '@brokkr/contract/work-orders/work-order.ts'
import type { Sql } from '@brokkr/postgres'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import type { Seal } from '../../seal.ts'
import { enqueueDeliveries } from '../../webhooks/delivery/enqueue.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
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

// Metrics of work orders that the actions observe; counts by status are gauges read from the database.

export interface WorkOrderMetrics {
  observeClaim(order: { readonly attempt: number; readonly created_at: string; readonly claimed_at: string | null }): void
}

export function createWorkOrderMetrics(metrics: Metrics): WorkOrderMetrics {
  const seconds = metrics.histogram('brokkr_work_order_claim_seconds', 'Time from the creation of a work order to its first claim')
  return {
    observeClaim: ({ attempt, created_at, claimed_at }) => {
      // Later attempts follow a failure or a timeout, whose delay is no sign of missing agents.
      if (attempt === 1 && claimed_at !== null) seconds.observe(Math.max(0, Date.parse(claimed_at) - Date.parse(created_at)) / 1000)
    },
  }
}
