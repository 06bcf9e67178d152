// Changes name, description or drift of a stack. Name and drift are sent to agents, so changing them takes a sequence number. Null and
// omitted fields stay unchanged; generator and deletion cannot be changed here.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Stack } from '@brokkr/contract/stacks/stack.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { changedFields } from '../../rules/changed-fields.ts'
import { requireDescription, requireName, requireUnchanged } from '../../rules/names.ts'
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
  /** Throws if the stack changed after the caller read it. */
  readonly precondition: (row: { readonly updated_at: string }) => void
  readonly actor: Actor
}

export async function updateStack(deps: { sql: Sql; wakeFeed: () => void }, input: StackChange): Promise<Stack> {
  const { stackId: id, actor } = input
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
    await recordAuditEntry(sql, { actor, action: 'stack.updated', resource: { type: 'stack', id }, details: { fields } })
    return stacks.update(sql, { id, ...after, takes_number: fields.includes('name') || fields.includes('drift') })
  })
  deps.wakeFeed()
  return stack
}
