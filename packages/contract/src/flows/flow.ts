// Flows of all clusters as their agents report them, and orders that steer them.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { AgentId, byId, DeploymentObjectId, GeneratorId, pageQuery, StackId, Timestamp, Uuid } from '../wire.ts'
import { FlowAction, FlowObjectKind } from './flow-order.ts'
import { FlowReport } from './flow-report.ts'

/** From the reported phase; `unknown` without one. A stale flow keeps its last state. */
export const FlowState = z.enum(['running', 'pending', 'blocked', 'error', 'stopped', 'completed', 'unknown'])
export type FlowState = z.output<typeof FlowState>

export const Flow = z.object({
  id: Uuid,
  kind: FlowObjectKind,
  namespace: z.string(),
  name: z.string(),
  agent_id: AgentId,
  agent_name: z.string(),
  cluster_name: z.string(),
  stack_id: StackId,
  stack_name: z.string(),
  generator_id: GeneratorId,
  /** Contains the manifest of the flow. */
  deployment_object_id: DeploymentObjectId,
  state: FlowState,
  ready: z.boolean(),
  message: z.string().nullable(),
  /** The figures are old: of the processor, of the agent's report, or because the agent is not connected. */
  stale: z.boolean(),
  /** Null until the agent has read the object. */
  report: FlowReport.nullable(),
  /** Time of the check that read the report. */
  reported_at: Timestamp.nullable(),
  checked_at: Timestamp,
  created_at: Timestamp,
})
export type Flow = z.output<typeof Flow>

export const FlowOrder = z.object({
  /** Id of the work order. */
  id: Uuid,
  flow_id: Uuid,
  action: z.string(),
  status: z.enum(['PENDING', 'CLAIMED', 'RETRY_PENDING', 'COMPLETED', 'FAILED']),
  /** Result, or the last error. */
  message: z.string().nullable(),
  created_at: Timestamp,
  finished_at: Timestamp.nullable(),
})
export type FlowOrder = z.output<typeof FlowOrder>

export const listFlows = endpoint({
  method: 'GET',
  path: '/api/v1/flows',
  summary: 'List flows of all clusters by name; generators see those of their own stacks',
  query: z.object({
    state: FlowState.optional(),
    agent_id: AgentId.optional(),
    stack_id: StackId.optional(),
    /** Exact name. */
    name: z.string().max(253).optional(),
    /** Part of the name, any case. */
    search: z.string().max(253).optional(),
    stale: z.boolean().optional(),
    ...pageQuery,
  }),
  success: 200,
  response: z.array(Flow),
  errors: ['invalid_cursor'],
})

export const getFlow = endpoint({
  method: 'GET',
  path: '/api/v1/flows/{id}',
  summary: 'Read a flow and its latest orders',
  params: byId(Uuid),
  success: 200,
  /** The newest first. */
  response: Flow.extend({ orders: z.array(FlowOrder) }),
  errors: ['flow_not_found', 'stack_not_owned'],
})

export const createFlowOrder = endpoint({
  method: 'POST',
  path: '/api/v1/flows/{id}/orders',
  summary: 'Pause, resume, reset, rewind, replay, skip or run a flow by a work order for the agent of its cluster',
  params: byId(Uuid),
  body: FlowAction,
  success: 201,
  response: FlowOrder,
  errors: ['flow_not_found', 'stack_not_owned', 'invalid_flow_order', 'limit_exceeded'],
})
