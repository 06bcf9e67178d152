// Who am I: the check of a key, used by agents at start and by people at sign-in.
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { AgentId, GeneratorId } from './wire.ts'

export const verifyPak = endpoint({
  method: 'POST',
  path: '/api/v1/auth/pak',
  summary: 'Tells whose key this is',
  success: 200,
  response: z.object({
    admin: z.boolean(),
    agent: AgentId.nullable(),
    generator: GeneratorId.nullable(),
    readonly: z.boolean(),
  }),
})
