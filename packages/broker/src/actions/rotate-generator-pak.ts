// Gives a generator a new key: the old one is dead with the commit. The system generator has none, and never gets one.
import { ApiError } from '@brokkr/contract/error.ts'
import type { Generator } from '@brokkr/contract/generator.ts'
import { makePak } from '@brokkr/contract/pak.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import * as generators from '../store/generators.ts'
import type { Sql } from '../store/sql.ts'

export async function rotateGeneratorPak(
  deps: { sql: Sql; wakeFeed: () => void },
  { generatorId: id, by }: { generatorId: string; by: Actor },
): Promise<{ generator: Generator; pak: string }> {
  const made = await makePak()
  const generator = await deps.sql.begin(async (sql) => {
    const before = await generators.lock(sql, { id })
    if (before === null) throw new ApiError('generator_not_found', 'no such generator')
    if (before.is_system) throw new ApiError('cannot_rotate_system_generator', 'the system generator has no key')
    await recordDeed(sql, { by, action: 'pak.rotated', on: { type: 'generator', id }, details: { short_token: made.short } })
    return generators.setPak(sql, { id, pak_hash: made.hash, pak_short: made.short })
  })
  deps.wakeFeed()
  return { generator, pak: made.pak }
}
