// Deletes a generator: its key is dead, every stack of its goes the way of a deleted stack, its registrations end.
import { ApiError } from '@brokkr/contract/error.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import type { Seal } from '../seal.ts'
import * as generators from '../store/generators.ts'
import * as registrations from '../store/registrations.ts'
import type { Sql } from '../store/sql.ts'
import * as stacks from '../store/stacks.ts'
import type { Subscriptions } from '../webhooks/subscriptions.ts'
import { deleteStacks } from './delete-stack.ts'
import { lockTargeting } from './retarget.ts'

const stacksPerStep = 500

export async function deleteGenerator(
  deps: { sql: Sql; seal: Seal; hooks: Subscriptions; wakeFeed: () => void },
  { generatorId: id, by }: { generatorId: string; by: Actor },
): Promise<void> {
  await deps.sql.begin(async (sql) => {
    // Creating a stack takes this lock too: none can appear behind our back.
    await lockTargeting(sql)
    const generator = await generators.lock(sql, { id })
    if (generator === null) throw new ApiError('generator_not_found', 'no such generator')
    if (generator.is_system) throw new ApiError('cannot_delete_system_generator', 'the system generator cannot be deleted')
    const live = (await stacks.liveOf(sql, { generator_id: id })).map((stack) => stack.id)
    for (let at = 0; at < live.length; at += stacksPerStep)
      await deleteStacks(sql, deps, { stackIds: live.slice(at, at + stacksPerStep), by })
    await registrations.removeAllOf(sql, { generator_id: id })
    await generators.markDeleted(sql, { id })
    await recordDeed(sql, { by, action: 'generator.deleted', on: { type: 'generator', id }, details: { stacks: live.length } })
  })
  deps.wakeFeed()
}
