// Work orders: something to be done once, by one of the agents it fits. A finished one lives on in the log.
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { AgentId, AnnotationKey, AnnotationValue, byId, Label, pageQuery, Timestamp, Uuid } from './wire.ts'

export const WorkOrder = z.object({
  id: Uuid,
  work_type: z.string(),
  yaml_content: z.string(),
  status: z.enum(['PENDING', 'CLAIMED', 'RETRY_PENDING', 'COMPLETED', 'FAILED']),
  claimed_by: AgentId.nullable(),
  claimed_at: Timestamp.nullable(),
  claim_timeout_seconds: z.int32(),
  max_retries: z.int32(),
  retry_count: z.int32(),
  backoff_seconds: z.int32(),
  next_retry_after: Timestamp.nullable(),
  last_error: z.string().nullable(),
  last_error_at: Timestamp.nullable(),
  created_at: Timestamp,
  updated_at: Timestamp,
  attempt: z.int32(),
})
export type WorkOrder = z.output<typeof WorkOrder>

export const WorkOrderLog = z.object({
  id: Uuid,
  work_type: z.string(),
  created_at: Timestamp,
  claimed_at: Timestamp.nullable(),
  completed_at: Timestamp,
  claimed_by: AgentId.nullable(),
  success: z.boolean(),
  retries_attempted: z.int32(),
  result_message: z.string().nullable(),
  yaml_content: z.string(),
})
export type WorkOrderLog = z.output<typeof WorkOrderLog>

const params = byId(Uuid)

export const listWorkOrders = endpoint({
  method: 'GET',
  path: '/api/v1/work-orders',
  summary: 'Open work orders, newest first',
  query: z.object({ status: z.string().optional(), work_type: z.string().optional(), ...pageQuery }),
  success: 200,
  response: z.array(WorkOrder),
  errors: ['invalid_cursor'],
})

export const createWorkOrder = endpoint({
  method: 'POST',
  path: '/api/v1/work-orders',
  summary: 'Create a work order for agents by id, label or annotation',
  body: z.object({
    work_type: z.string(),
    yaml_content: z.string(),
    max_retries: z.int().nullable().optional(),
    backoff_seconds: z.int().nullable().optional(),
    claim_timeout_seconds: z.int().nullable().optional(),
    targeting: z
      .object({
        agent_ids: z.array(AgentId).nullable().optional(),
        labels: z.array(Label).nullable().optional(),
        annotations: z.record(AnnotationKey, AnnotationValue).nullable().optional(),
        match: z.enum(['any', 'all']).nullable().optional(),
      })
      .nullable()
      .optional(),
    /** Older spelling of targeting.agent_ids. */
    target_agent_ids: z.array(AgentId).nullable().optional(),
  }),
  success: 201,
  response: WorkOrder,
  errors: ['no_targeting_specified', 'invalid_work_order', 'foreign_key_violation'],
})

export const getWorkOrder = endpoint({
  method: 'GET',
  path: '/api/v1/work-orders/{id}',
  summary: 'One work order, also when it is finished',
  params,
  success: 200,
  response: WorkOrder,
  errors: ['work_order_not_found'],
})

export const deleteWorkOrder = endpoint({
  method: 'DELETE',
  path: '/api/v1/work-orders/{id}',
  summary: 'Delete an open work order',
  params,
  success: 204,
  errors: ['work_order_not_found'],
})

export const listPendingForAgent = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{agent_id}/work-orders/pending',
  summary: 'Work orders an agent could claim, oldest first',
  params: z.object({ agent_id: AgentId }),
  query: z.object({ work_type: z.string().optional(), ...pageQuery }),
  success: 200,
  response: z.array(WorkOrder),
  errors: ['agent_not_found', 'agent_pak_mismatch', 'invalid_cursor'],
})

export const claimWorkOrder = endpoint({
  method: 'POST',
  path: '/api/v1/work-orders/{id}/claim',
  summary: 'Claim a work order; of all agents one wins',
  params,
  body: z.object({ agent_id: AgentId }),
  success: 200,
  response: WorkOrder,
  errors: ['agent_pak_mismatch', 'work_order_not_claimable'],
})

export const completeWorkOrder = endpoint({
  method: 'POST',
  path: '/api/v1/work-orders/{id}/complete',
  summary: 'Tell how a claimed work order ended; what failed may be scheduled again',
  params,
  body: z.object({
    success: z.boolean(),
    message: z.string().nullable().optional(),
    retryable: z.boolean().nullable().optional(),
    attempt: z.int().nullable().optional(),
  }),
  success: 200,
  response: WorkOrderLog,
  other: { status: 202, response: z.object({ status: z.literal('retry_scheduled') }) },
  errors: ['work_order_not_found', 'work_order_not_claimed_by_agent', 'work_order_attempt_stale'],
})

export const listWorkOrderLog = endpoint({
  method: 'GET',
  path: '/api/v1/work-order-log',
  summary: 'Finished work orders, newest first',
  query: z.object({
    work_type: z.string().optional(),
    success: z.boolean().optional(),
    agent_id: AgentId.optional(),
    ...pageQuery,
  }),
  success: 200,
  response: z.array(WorkOrderLog),
  errors: ['invalid_cursor'],
})

export const getWorkOrderLog = endpoint({
  method: 'GET',
  path: '/api/v1/work-order-log/{id}',
  summary: 'One finished work order',
  params,
  success: 200,
  response: WorkOrderLog,
  errors: ['work_order_log_entry_not_found'],
})
