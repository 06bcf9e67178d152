// Prune approvals: an admin allows an agent to exceed its prune guard, for a number of stacks in its next snapshot or for one
// deployment object of a stack.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { AgentId, byId, StackId, Timestamp, Uuid } from '../wire.ts'

export const PruneApproval = z.object({
  id: Uuid,
  agent_id: AgentId,
  removals: z.int().nullable(),
  stack_id: StackId.nullable(),
  sequence_id: z.int().nullable(),
  expires_at: Timestamp.nullable(),
  created_at: Timestamp,
})
export type PruneApproval = z.output<typeof PruneApproval>

const path = '/api/v1/agents/{id}/prune-approvals'

export const approvePrune = endpoint({
  method: 'POST',
  path,
  summary: 'Approve the removal of a number of stacks by the next snapshot of an agent, or the deletions of one deployment object',
  params: byId(AgentId),
  body: z.object({
    removals: z.int().min(1).max(1_000_000).nullable().optional(),
    stack_id: StackId.nullable().optional(),
    sequence_id: z.int().min(1).nullable().optional(),
  }),
  success: 201,
  response: PruneApproval,
  errors: ['agent_not_found', 'stack_not_found', 'deployment_object_not_found', 'validation_failed'],
})

export const listPruneApprovals = endpoint({
  method: 'GET',
  path,
  summary: 'List unused prune approvals, newest first',
  params: byId(AgentId),
  success: 200,
  response: z.array(PruneApproval),
  errors: ['agent_not_found', 'agent_pak_mismatch'],
})
