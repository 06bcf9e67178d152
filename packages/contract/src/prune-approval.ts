// A person's word that the guard of an agent may let removals pass: so many stacks of its next snapshot, or what one revision of a
// stack drops.
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { AgentId, byId, StackId, Timestamp, Uuid } from './wire.ts'

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
  summary: 'Let the next snapshot of an agent remove so many stacks, or a revision of a stack what it drops',
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
  summary: 'Approvals of removals that were not used yet, newest first',
  params: byId(AgentId),
  success: 200,
  response: z.array(PruneApproval),
  errors: ['agent_not_found', 'agent_pak_mismatch'],
})
