// Generators submit stacks; usually a CI system or a team. Stacks of a generator reach only agents that are registered with it.
import { z } from 'zod'
import { Registration } from '../agents/agent.ts'
import { endpoint } from '../endpoint.ts'
import { AgentId, byId, deletedQuery, GeneratorId, pageQuery, rowTimes, Timestamp } from '../wire.ts'

export const Generator = z.object({
  id: GeneratorId,
  name: z.string(),
  description: z.string().nullable(),
  is_active: z.boolean(),
  is_system: z.boolean(),
  last_active_at: Timestamp.nullable(),
  ...rowTimes,
})
export type Generator = z.output<typeof Generator>

export const listGenerators = endpoint({
  method: 'GET',
  path: '/api/v1/generators',
  summary: 'List generators by name, without system generators',
  query: z.object({ name: z.string().optional(), ...deletedQuery, ...pageQuery }),
  success: 200,
  response: z.array(Generator),
  errors: ['invalid_cursor'],
})

export const createGenerator = endpoint({
  method: 'POST',
  path: '/api/v1/generators',
  summary: 'Create a generator; the response is the only one that contains its PAK',
  body: z.object({ name: z.string(), description: z.string().nullable().optional() }),
  success: 201,
  response: z.object({ generator: Generator, pak: z.string() }),
  errors: ['unique_violation'],
})

const params = byId(GeneratorId)

export const getGenerator = endpoint({
  method: 'GET',
  path: '/api/v1/generators/{id}',
  summary: 'Read a generator',
  params,
  query: z.object(deletedQuery),
  success: 200,
  response: Generator,
  errors: ['generator_not_found', 'generator_not_owned'],
})

export const updateGenerator = endpoint({
  method: 'PUT',
  path: '/api/v1/generators/{id}',
  summary: 'Change name or description, and as admin the active state; null and missing fields stay unchanged',
  params,
  body: z.object({
    id: GeneratorId.nullable().optional(),
    name: z.string().nullable().optional(),
    description: z.string().nullable().optional(),
    is_active: z.boolean().nullable().optional(),
    is_system: z.boolean().nullable().optional(),
  }),
  success: 200,
  response: Generator,
  errors: ['not_found', 'generator_not_owned', 'immutable_field', 'unique_violation', 'precondition_failed'],
})

export const deleteGenerator = endpoint({
  method: 'DELETE',
  path: '/api/v1/generators/{id}',
  summary: 'Delete a generator with all its stacks; agents remove what these stacks deployed',
  params,
  success: 204,
  errors: ['generator_not_found', 'generator_not_owned', 'cannot_delete_system_generator'],
})

export const rotateGeneratorPak = endpoint({
  method: 'POST',
  path: '/api/v1/generators/{id}/rotate-pak',
  summary: 'Replace the PAK of a generator and revoke the old one; the response is the only one that contains the new PAK',
  params,
  success: 201,
  response: z.object({ generator: Generator, pak: z.string() }),
  errors: ['generator_not_found', 'generator_not_owned', 'cannot_rotate_system_generator'],
})

const Whom = z.object({ agent_id: AgentId.nullable().optional() })

export const registerAgent = endpoint({
  method: 'POST',
  path: '/api/v1/generators/{id}/register',
  summary: 'Register an agent with a generator, so that its stacks can target the agent',
  params,
  body: Whom,
  success: 201,
  response: Registration,
  errors: ['generator_not_found', 'already_registered', 'missing_agent_id', 'forbidden', 'foreign_key_violation', 'limit_exceeded'],
})

export const deregisterAgent = endpoint({
  method: 'DELETE',
  path: '/api/v1/generators/{id}/register',
  summary: 'Delete the registration of the agent in the body; stacks of the generator are removed from it',
  params,
  body: Whom,
  success: 204,
  errors: ['generator_not_found', 'missing_agent_id', 'forbidden'],
})

export const listGeneratorRegisteredAgents = endpoint({
  method: 'GET',
  path: '/api/v1/generators/{id}/registered-agents',
  summary: 'List registrations of a generator, newest first',
  params,
  query: z.object(pageQuery),
  success: 200,
  response: z.array(Registration),
  errors: ['generator_not_found', 'not_authorized', 'system_generator_not_a_tenant', 'invalid_cursor'],
})

export const listPaks = endpoint({
  method: 'GET',
  path: '/api/v1/paks',
  summary: 'List names of generators, to select one',
  query: z.object(pageQuery),
  success: 200,
  response: z.array(z.object({ id: GeneratorId, name: z.string() })),
  errors: ['invalid_cursor'],
})
