// Targets and registrations of an agent.
import { z } from 'zod'
import { AgentTarget, Registration } from '../agents/agent.ts'
import { endpoint } from '../endpoint.ts'
import { Stack } from '../stacks/stack.ts'
import { AgentId, byId, pageQuery, StackId } from '../wire.ts'

const params = byId(AgentId)

export const listTargets = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{id}/targets',
  summary: 'List the targets of an agent with their reasons',
  params,
  query: z.object({ reason: z.enum(['explicit', 'label', 'annotation', 'all']).default('explicit'), ...pageQuery }),
  success: 200,
  response: z.array(AgentTarget),
  errors: ['agent_not_found', 'agent_pak_mismatch', 'invalid_cursor'],
})

export const addTarget = endpoint({
  method: 'POST',
  path: '/api/v1/agents/{id}/targets',
  summary: 'Create an explicit target of a stack on an agent',
  params,
  body: z.object({ agent_id: AgentId, stack_id: StackId }),
  success: 201,
  response: AgentTarget,
  errors: [
    'stack_not_found',
    'target_generator_mismatch',
    'target_create_denied',
    'agent_not_registered',
    'agent_id_mismatch',
    'unique_violation',
    'limit_exceeded',
  ],
})

export const removeTarget = endpoint({
  method: 'DELETE',
  path: '/api/v1/agents/{id}/targets/{stack_id}',
  summary: 'Delete an explicit target',
  params: z.object({ id: AgentId, stack_id: StackId }),
  success: 204,
  errors: ['stack_not_found', 'agent_target_not_found', 'target_generator_mismatch', 'target_create_denied', 'agent_not_registered'],
})

export const getAssociatedStacks = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{id}/stacks',
  summary: 'List all stacks that target an agent, by id; never truncated',
  params,
  success: 200,
  response: z.array(Stack),
  errors: ['agent_not_found', 'agent_pak_mismatch'],
})

export const listAgentRegistrations = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{id}/registrations',
  summary: 'List registrations of an agent, newest first',
  params,
  query: z.object(pageQuery),
  success: 200,
  response: z.array(Registration),
  errors: ['agent_not_found', 'agent_pak_mismatch', 'invalid_cursor'],
})
