// Changes a generator: name and description by its owner, whether it is active by admins alone. Null and what is not sent
// stay; what identifies it cannot change.
import { ApiError } from '@brokkr/contract/error.ts'
import type { Generator } from '@brokkr/contract/generator.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { changedFields } from '../domain/changed-fields.ts'
import { requireDescription, requireName, requireUnchanged } from '../domain/names.ts'
import * as generators from '../store/generators.ts'
import type { Sql } from '../store/sql.ts'

type Sent<T> = T | null | undefined
export interface GeneratorChange {
  readonly generatorId: string
  readonly id: Sent<string>
  readonly name: Sent<string>
  readonly description: Sent<string>
  readonly is_active: Sent<boolean>
  readonly is_system: Sent<boolean>
  /** Throws when the caller read an older one. */
  readonly precondition: (row: { readonly updated_at: string }) => void
  readonly by: Actor
}

export async function updateGenerator(deps: { sql: Sql; wakeFeed: () => void }, input: GeneratorChange): Promise<Generator> {
  const { generatorId: id, by } = input
  const generator = await deps.sql.begin(async (sql) => {
    const before = await generators.lock(sql, { id })
    if (before === null) throw new ApiError('not_found', 'no such generator')
    input.precondition(before)
    requireUnchanged('id', input.id, before.id)
    requireUnchanged('is_system', input.is_system, before.is_system)
    const after = {
      name: input.name === null || input.name === undefined ? before.name : requireName(input.name, 'name'),
      description: requireDescription(input.description) ?? before.description,
      is_active: (by.kind === 'admin' ? input.is_active : null) ?? before.is_active,
    }
    const fields = changedFields(before, after)
    if (fields.length === 0) return before
    await recordDeed(sql, { by, action: 'generator.updated', on: { type: 'generator', id }, details: { fields } })
    return generators.update(sql, { id, ...after })
  })
  deps.wakeFeed()
  return generator
}
