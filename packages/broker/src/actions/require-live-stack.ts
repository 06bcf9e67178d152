// A stack that was deleted since the caller was let in takes nothing more.
import { ApiError } from '@brokkr/contract/error.ts'
import type { Sql } from '../store/sql.ts'
import * as stacks from '../store/stacks.ts'

/** Under the targeting lock, which deleting a stack takes too. */
export async function requireLiveStack(sql: Sql, id: string): Promise<void> {
  if ((await stacks.get(sql, { id })) === null) throw new ApiError('stack_not_found', 'no such stack')
}
