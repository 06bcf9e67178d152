// A key opens one thing. That of an agent is also held by the database; an admin's or generator's is looked for here.
import { ApiError } from '@brokkr/contract/error.ts'
import * as credentials from '../store/credentials.ts'
import type { Sql } from '../store/sql.ts'

/** `agentId`: whose key it may be already. */
export async function refuseKnownHash(sql: Sql, hash: string, agentId: string | null): Promise<void> {
  const found = await credentials.findByHash(sql, { hash })
  if (found === null || found.id === agentId) return
  throw new ApiError('unique_violation', 'another key has this hash: make a new one', { details: { constraint: 'unique_agent_pak' } })
}
