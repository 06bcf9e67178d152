// An agent that was deleted is still a row; to whoever names it, it is as unknown as one that never was.
import { ApiError } from '@brokkr/contract/error.ts'
import * as agents from '../store/agents.ts'
import type { Sql } from '../store/sql.ts'

/** Under the targeting lock, which deleting an agent takes too. `constraint` is the one the database would name. */
export async function requireLiveAgent(sql: Sql, id: string, constraint: string): Promise<void> {
  if ((await agents.get(sql, { id })) !== null) return
  throw new ApiError('foreign_key_violation', `something that is named does not exist: constraint ${constraint}`, {
    details: { constraint },
  })
}
