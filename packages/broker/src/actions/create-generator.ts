// Creates a generator with its key; the clear text is in the answer and nowhere else.
import type { Generator } from '@brokkr/contract/generator.ts'
import { makePak } from '@brokkr/contract/pak.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { requireDescription, requireName } from '../domain/names.ts'
import { uuid7 } from '../domain/uuid7.ts'
import * as generators from '../store/generators.ts'
import type { Sql } from '../store/sql.ts'

export interface NewGenerator {
  readonly name: string
  readonly description: string | null | undefined
  readonly by: Actor
}

export async function createGenerator(
  deps: { sql: Sql; wakeFeed: () => void },
  input: NewGenerator,
): Promise<{ generator: Generator; pak: string }> {
  const made = await makePak()
  const row = {
    id: uuid7(),
    name: requireName(input.name, 'name'),
    description: requireDescription(input.description),
    pak_hash: made.hash,
    pak_short: made.short,
    is_system: false,
  }
  const generator = await deps.sql.begin(async (sql) => {
    const inserted = await generators.insert(sql, row)
    await recordDeed(sql, {
      by: input.by,
      action: 'generator.created',
      on: { type: 'generator', id: inserted.id },
      details: { name: inserted.name },
    })
    return inserted
  })
  deps.wakeFeed()
  return { generator, pak: made.pak }
}
