// Generators: whoever submits desired state (a pipeline, a team). An agent takes stacks only from generators it is
// registered with.
import { z } from 'zod'
import { Registration } from './agent.ts'
import { endpoint } from './endpoint.ts'
import { AgentId, byId, GeneratorId, rowTimes, Timestamp } from './wire.ts'

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
  summary: 'Generators by name, without system ones',
  query: z.object({ name: z.string().optional() }),
  success: 200,
  response: z.array(Generator),
})

export const createGenerator = endpoint({
  method: 'POST',
  path: '/api/v1/generators',
  summary: 'Create a generator; its key is shown once, here',
  body: z.object({ name: z.string(), description: z.string().nullable().optional() }),
  success: 201,
  response: z.object({ generator: Generator, pak: z.string() }),
  errors: ['unique_violation'],
})

export const registerAgent = endpoint({
  method: 'POST',
  path: '/api/v1/generators/{id}/register',
  summary: 'Register an agent with a generator, so that its stacks may reach it',
  params: byId(GeneratorId),
  body: z.object({ agent_id: AgentId.optional() }),
  success: 201,
  response: Registration,
  errors: ['generator_not_found', 'already_registered', 'missing_agent_id', 'forbidden', 'foreign_key_violation', 'limit_exceeded'],
})
