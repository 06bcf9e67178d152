// Plans: what a change of a stack would do on every targeted cluster, computed by the agents with dry runs before it is applied. A plan is
// bound to its content, the newest object and the targets of the stack.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { AgentId, byId, StackId, Timestamp, Uuid } from '../wire.ts'

export const planChangesMax = 500
export const planFieldsMax = 50

const name = z.string().max(253)
const text = z.string().max(4096)

/** One path of a member that would change. Values of Secrets are masked by the agent; an absent side means that there is no value. */
export const PlanField = z.object({
  path: z.string().max(4096),
  before: z.unknown().optional(),
  after: z.unknown().optional(),
  /** Field manager that owns the path now. */
  manager: z.string().max(253).nullable().optional(),
})
export type PlanField = z.output<typeof PlanField>

export const PlanChange = z.object({
  group: name,
  kind: name,
  namespace: name.nullable(),
  name,
  change: z.enum(['create', 'update', 'delete', 'denied', 'unchecked']),
  fields: z.array(PlanField).max(planFieldsMax),
  /** Why the prune guard would hold this deletion. */
  guard: text.nullable(),
  /** Why it is denied or unchecked. */
  message: text.nullable(),
})
export type PlanChange = z.output<typeof PlanChange>

const count = z.int().min(0)
export const PlanSummary = z.object({
  create: count,
  update: count,
  delete: count,
  unchanged: count,
  denied: count,
  unchecked: count,
})
export type PlanSummary = z.output<typeof PlanSummary>

/** Silent: the agent was disconnected, does not support plans, or did not answer in time. It never counts as unchanged. */
export const PlanState = z.enum(['waiting', 'answered', 'silent', 'refused'])
export type PlanState = z.output<typeof PlanState>

export const PlanResult = z.object({
  agent_id: AgentId,
  agent_name: z.string(),
  cluster_name: z.string(),
  state: PlanState,
  reason: z.string().nullable(),
  at: Timestamp.nullable(),
  summary: PlanSummary.nullable(),
  changes: z.array(PlanChange),
  /** The changes are left out, because the answer would be too large: read them with agent_id. */
  has_more: z.boolean(),
})
export type PlanResult = z.output<typeof PlanResult>

export const Plan = z.object({
  id: Uuid,
  stack_id: StackId,
  /** The newest deployment object when the plan was made; null if there was none. */
  base_sequence_id: z.int().nullable(),
  is_deletion_marker: z.boolean(),
  content_checksum: z.string(),
  target_digest: z.string(),
  agents_total: z.int(),
  expires_at: Timestamp,
  created_at: Timestamp,
})
export type Plan = z.output<typeof Plan>

export const PlanWithResults = Plan.extend({ results: z.array(PlanResult) })
export type PlanWithResults = z.output<typeof PlanWithResults>

export const PendingPlan = z.object({ id: Uuid, stack_id: StackId, yaml_content: z.string(), is_deletion_marker: z.boolean() })
export type PendingPlan = z.output<typeof PendingPlan>

export const createPlan = endpoint({
  method: 'POST',
  path: '/api/v1/stacks/{id}/plans',
  summary: 'Plan a change: every targeted agent computes with dry runs what yaml_content, or the object with sequence_id, would do',
  params: byId(StackId),
  query: z.object({ deletion_marker: z.boolean().default(false) }),
  body: z.object({
    yaml_content: z.string().nullable().optional(),
    sequence_id: z.int().min(1).nullable().optional(),
    is_deletion_marker: z.boolean().default(false),
  }),
  bodyKind: 'manifest',
  success: 201,
  response: Plan,
  errors: ['stack_not_found', 'stack_not_owned', 'invalid_deployment_object', 'deployment_object_not_found', 'limit_exceeded'],
})

export const getPlan = endpoint({
  method: 'GET',
  path: '/api/v1/plans/{id}',
  summary: 'Read a plan with the result of every agent; with agent_id, of one agent',
  params: byId(Uuid),
  query: z.object({ agent_id: AgentId.optional() }),
  success: 200,
  response: PlanWithResults,
  errors: ['plan_not_found', 'stack_not_owned'],
})

export const listPendingPlans = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{id}/plans/pending',
  summary: 'List plans that wait for the result of an agent, oldest first',
  params: byId(AgentId),
  success: 200,
  response: z.array(PendingPlan),
  errors: ['agent_pak_mismatch'],
})

export const NewPlanResult = z.object({
  state: z.enum(['answered', 'refused']),
  reason: text.nullable().optional(),
  summary: PlanSummary,
  changes: z.array(PlanChange).max(planChangesMax),
})
export type NewPlanResult = z.output<typeof NewPlanResult>

export const reportPlanResult = endpoint({
  method: 'POST',
  path: '/api/v1/plans/{id}/results',
  summary: 'Report what a plan would do in the cluster of the calling agent',
  params: byId(Uuid),
  body: NewPlanResult,
  success: 204,
  errors: ['plan_not_found', 'plan_not_targeted', 'plan_expired'],
})
