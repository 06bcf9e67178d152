// Rejects references to generators that do not exist.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import * as generators from '../store/generators.ts'

export async function requireLiveGenerators(sql: Sql, ids: string[]): Promise<void> {
  const live = await generators.holdLive(sql, { ids })
  if (live.length < ids.length) throw new ApiError('invalid_generator_id', 'generator_ids names a generator that does not exist')
}
