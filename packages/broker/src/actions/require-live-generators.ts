// Whoever names generators names ones that exist.
import { ApiError } from '@brokkr/contract/error.ts'
import * as generators from '../store/generators.ts'
import type { Sql } from '../store/sql.ts'

export async function requireLiveGenerators(sql: Sql, ids: string[]): Promise<void> {
  const live = await generators.liveAmong(sql, { ids })
  if (live.length < ids.length) throw new ApiError('invalid_generator_id', 'generator_ids names a generator that does not exist')
}
