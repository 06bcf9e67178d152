// Changes name, description or drift of a stack. Name and drift reach agents and so take a number; null and what is not sent
// stay; owner and deletion are not changed this way.
import { ApiError } from '@brokkr/contract/error.ts'
import type { Stack } from '@brokkr/contract/stack.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { changedFields } from '../domain/changed-fields.ts'
import { requireDescription, requireName, requireUnchanged } from '../domain/names.ts'
import type { Sql } from '../store/sql.ts'
import * as stacks from '../store/stacks.ts'

type Sent<T> = T | null | undefined
export interface StackChange {
  readonly stackId: string
  readonly id: Sent<string>
  readonly name: Sent<string>
  readonly description: Sent<string>
  readonly drift: Sent<Stack['drift']>
  readonly generator_id: Sent<string>
  readonly deleted_at: Sent<string>
  /** Throws when the caller read an older one. */
  readonly precondition: (row: { readonly updated_at: string }) => void
  readonly by: Actor
}

export async function updateStack(deps: { sql: Sql; wakeFeed: () => void }, input: StackChange): Promise<Stack> {
  const { stackId: id, by } = input
  if ((input.id ?? id) !== id) throw new ApiError('stack_id_mismatch', 'id in the body differs from the path')
  const stack = await deps.sql.begin(async (sql) => {
    const before = await stacks.lock(sql, { id })
    if (before === null) throw new ApiError('stack_not_found', 'no such stack')
    input.precondition(before)
    requireUnchanged<string>('generator_id', input.generator_id, before.generator_id)
    requireUnchanged('deleted_at', input.deleted_at, before.deleted_at)
    const after = {
      name: input.name === null || input.name === undefined ? before.name : requireName(input.name, 'name'),
      description: requireDescription(input.description) ?? before.description,
      drift: input.drift ?? before.drift,
    }
    const fields = changedFields(before, after)
    if (fields.length === 0) return before
    await recordDeed(sql, { by, action: 'stack.updated', on: { type: 'stack', id }, details: { fields } })
    return stacks.update(sql, { id, ...after, takes_number: fields.includes('name') || fields.includes('drift') })
  })
  deps.wakeFeed()
  return stack
}
