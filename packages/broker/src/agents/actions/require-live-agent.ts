// Treats a deleted agent, whose row still exists, like an unknown one.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import * as agents from '../store/agents.ts'

/** Call it under the targeting lock, which deleting an agent takes too. `constraint` is the foreign key that an unknown id would violate. */
export async function requireLiveAgent(sql: Sql, id: string, constraint: string): Promise<void> {
  if ((await agents.get(sql, { id })) !== null) return
  throw new ApiError('foreign_key_violation', `a referenced resource does not exist: constraint ${constraint}`, {
    details: { constraint },
  })
}
