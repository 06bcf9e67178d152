// Webhook events of work orders. Pure; payloads contain no text of an order.
import type { WorkOrder, WorkOrderLog } from '@brokkr/contract/work-orders/work-order.ts'
import type { WebhookEvent } from '../../webhooks/delivery/rules/webhook-events.ts'

export function workOrderCreated({ id, work_type, status, created_at }: Omit<WorkOrder, 'yaml_content'>): WebhookEvent {
  return { type: 'workorder.created', at: created_at, data: { created_at, status, work_order_id: id, work_type } }
}

export function workOrderClaimed(row: {
  id: string
  work_type: string
  claimed_by: string | null
  claimed_at: string | null
}): WebhookEvent {
  const { id, work_type, claimed_by: agent_id, claimed_at } = row
  return { type: 'workorder.claimed', at: claimed_at ?? '', data: { agent_id, claimed_at, work_order_id: id, work_type } }
}

export function workOrderFinished(entry: Omit<WorkOrderLog, 'yaml_content'>): WebhookEvent {
  const { id, work_type, success, result_message, claimed_by: agent_id, completed_at } = entry
  const data = { agent_id, completed_at, result_message, success, work_order_log_id: id, work_type }
  return { type: success ? 'workorder.completed' : 'workorder.failed', at: completed_at, data }
}
