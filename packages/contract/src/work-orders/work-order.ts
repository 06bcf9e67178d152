// Work orders: one-off jobs that one matching agent claims and executes. Finished work orders are in the work-order log.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { AgentId, AnnotationKey, AnnotationValue, byId, Label, pageQuery, Timestamp, Uuid } from '../wire.ts'

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
  summary: 'List open work orders, newest first',
  query: z.object({ status: z.string().optional(), work_type: z.string().optional(), ...pageQuery }),
  success: 200,
  response: z.array(WorkOrder),
  errors: ['invalid_cursor'],
})

export const createWorkOrder = endpoint({
  method: 'POST',
  path: '/api/v1/work-orders',
  summary: 'Create a work order for agents selected by id, label or annotation',
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
  summary: 'Read a work order, open or finished',
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
  summary: 'List work orders that an agent can claim, oldest first',
  params: z.object({ agent_id: AgentId }),
  query: z.object({ work_type: z.string().optional(), ...pageQuery }),
  success: 200,
  response: z.array(WorkOrder),
  errors: ['agent_not_found', 'agent_pak_mismatch', 'invalid_cursor'],
})

export const claimWorkOrder = endpoint({
  method: 'POST',
  path: '/api/v1/work-orders/{id}/claim',
  summary: 'Claim a work order; only one agent succeeds',
  params,
  body: z.object({ agent_id: AgentId }),
  success: 200,
  response: WorkOrder,
  errors: ['agent_pak_mismatch', 'work_order_not_claimable'],
})

export const completeWorkOrder = endpoint({
  method: 'POST',
  path: '/api/v1/work-orders/{id}/complete',
  summary: 'Report the result of a claimed work order; a failed one may be retried',
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
  summary: 'List finished work orders, newest first',
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

export const retryWorkOrder = endpoint({
  method: 'POST',
  path: '/api/v1/work-order-log/{id}/retry',
  summary: 'Create a new work order with the content and targeting of a failed one',
  params,
  success: 201,
  response: WorkOrder,
  errors: ['work_order_log_entry_not_found', 'work_order_succeeded', 'foreign_key_violation'],
})

/** Far above any output, and small enough that the offset after a piece is exact. */
const outputOffsetMax = 2 ** 40

export const appendWorkOrderOutput = endpoint({
  method: 'POST',
  path: '/api/v1/work-orders/{id}/output',
  summary: 'Append output of a claimed work order; a repeated piece is ignored',
  params,
  /** `offset` counts the bytes of the attempt's output before `text`. */
  body: z.object({ attempt: z.int32(), offset: z.int().min(0).max(outputOffsetMax), text: z.string().max(65_536) }),
  success: 204,
  errors: ['work_order_not_found', 'work_order_not_claimed_by_agent', 'work_order_attempt_stale'],
})

export const getWorkOrderOutput = endpoint({
  method: 'GET',
  path: '/api/v1/work-orders/{id}/output',
  summary: 'Read the last 256 KiB of output of the latest attempt that sent any',
  params,
  success: 200,
  /** `offset` is that of the first byte of `text`; `finished` tells that no more output follows. */
  response: z.object({ text: z.string(), offset: z.int(), finished: z.boolean() }),
  errors: ['work_order_not_found'],
})

export const getWorkOrderLog = endpoint({
  method: 'GET',
  path: '/api/v1/work-order-log/{id}',
  summary: 'Read a finished work order',
  params,
  success: 200,
  response: WorkOrderLog,
  errors: ['work_order_log_entry_not_found'],
})
