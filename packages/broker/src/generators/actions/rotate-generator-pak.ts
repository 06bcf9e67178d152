// Replaces the PAK of a generator. The old one is invalid after the commit. The system generator never has a PAK.

import { generatePak, type PakForm } from '@brokkr/contract/auth/pak.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Generator } from '@brokkr/contract/generators/generator.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import * as generators from '../store/generators.ts'

export async function rotateGeneratorPak(
  deps: { sql: Sql; wakeFeed: () => void; pakForm?: PakForm },
  { generatorId: id, actor }: { generatorId: string; actor: Actor },
): Promise<{ generator: Generator; pak: string }> {
  const newPak = await generatePak(deps.pakForm)
  const generator = await deps.sql.begin(async (sql) => {
    const before = await generators.lock(sql, { id })
    if (before === null) throw new ApiError('generator_not_found', 'no such generator')
    if (before.is_system) throw new ApiError('cannot_rotate_system_generator', 'the system generator has no PAK')
    await recordAuditEntry(sql, {
      actor,
      action: 'pak.rotated',
      resource: { type: 'generator', id },
      details: { short_token: newPak.short },
    })
    return generators.setPak(sql, { id, pak_hash: newPak.hash, pak_short: newPak.short })
  })
  deps.wakeFeed()
  return { generator, pak: newPak.pak }
}
