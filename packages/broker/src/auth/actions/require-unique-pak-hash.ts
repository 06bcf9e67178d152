// PAK hashes must be unique. The database enforces it among agents; hashes of admins and generators are checked here.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import * as credentials from '../store/credentials.ts'

/** `agentId` is the agent that may already have this hash. */
export async function requireUniquePakHash(sql: Sql, hash: string, agentId: string | null): Promise<void> {
  const credential = await credentials.findByHash(sql, { hash })
  if (credential === null || credential.id === agentId) return
  throw new ApiError('unique_violation', 'another PAK has this hash: create a new PAK', { details: { constraint: 'unique_agent_pak' } })
}
