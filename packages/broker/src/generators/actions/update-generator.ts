// Changes a generator. The generator itself may change name and description; only admins change is_active. Null and omitted fields stay
// unchanged; identifying fields are immutable.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Generator } from '@brokkr/contract/generators/generator.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { changedFields } from '../../rules/changed-fields.ts'
import { requireDescription, requireName, requireUnchanged } from '../../rules/names.ts'
import * as generators from '../store/generators.ts'

type Optional<T> = T | null | undefined
export interface GeneratorChange {
  readonly generatorId: string
  readonly id: Optional<string>
  readonly name: Optional<string>
  readonly description: Optional<string>
  readonly is_active: Optional<boolean>
  readonly is_system: Optional<boolean>
  /** Throws if the generator changed after the caller read it. */
  readonly precondition: (row: { readonly updated_at: string }) => void
  readonly actor: Actor
}

export async function updateGenerator(deps: { sql: Sql; wakeFeed: () => void }, input: GeneratorChange): Promise<Generator> {
  const { generatorId: id, actor } = input
  const generator = await deps.sql.begin(async (sql) => {
    const before = await generators.lock(sql, { id })
    if (before === null) throw new ApiError('not_found', 'no such generator')
    input.precondition(before)
    requireUnchanged('id', input.id, before.id)
    requireUnchanged('is_system', input.is_system, before.is_system)
    const after = {
      name: input.name === null || input.name === undefined ? before.name : requireName(input.name, 'name'),
      description: requireDescription(input.description) ?? before.description,
      is_active: (actor.kind === 'admin' ? input.is_active : null) ?? before.is_active,
    }
    const fields = changedFields(before, after)
    if (fields.length === 0) return before
    await recordAuditEntry(sql, { actor, action: 'generator.updated', resource: { type: 'generator', id }, details: { fields } })
    return generators.update(sql, { id, ...after })
  })
  deps.wakeFeed()
  return generator
}
