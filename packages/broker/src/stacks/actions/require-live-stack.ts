// Rejects writes to a stack that was deleted after the request was authorized.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import * as stacks from '../store/stacks.ts'

/** Call it under the targeting lock, which deleting a stack takes too. */
export async function requireLiveStack(sql: Sql, id: string): Promise<void> {
  if ((await stacks.get(sql, { id })) === null) throw new ApiError('stack_not_found', 'no such stack')
}
