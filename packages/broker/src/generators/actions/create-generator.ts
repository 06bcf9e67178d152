// Creates a generator with its PAK. Only the response contains the clear text.

import { generatePak, type PakForm } from '@brokkr/contract/auth/pak.ts'
import type { Generator } from '@brokkr/contract/generators/generator.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { requireDescription, requireName } from '../../rules/names.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import * as generators from '../store/generators.ts'

export interface NewGenerator {
  readonly name: string
  readonly description: string | null | undefined
  readonly actor: Actor
}

export async function createGenerator(
  deps: { sql: Sql; wakeFeed: () => void; pakForm?: PakForm },
  input: NewGenerator,
): Promise<{ generator: Generator; pak: string }> {
  const newPak = await generatePak(deps.pakForm)
  const row = {
    id: uuid7(),
    name: requireName(input.name, 'name'),
    description: requireDescription(input.description),
    pak_hash: newPak.hash,
    pak_short: newPak.short,
    is_system: false,
  }
  const generator = await deps.sql.begin(async (sql) => {
    const newGenerator = await generators.insert(sql, row)
    await recordAuditEntry(sql, {
      actor: input.actor,
      action: 'generator.created',
      resource: { type: 'generator', id: newGenerator.id },
      details: { name: newGenerator.name },
    })
    return newGenerator
  })
  deps.wakeFeed()
  return { generator, pak: newPak.pak }
}
