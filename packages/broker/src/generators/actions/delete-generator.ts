// Deletes a generator: its PAK becomes invalid, its stacks are deleted with deletion markers, its templates are deleted and its registrations end.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import type { Seal } from '../../seal.ts'
import { deleteStacks } from '../../stacks/actions/delete-stack.ts'
import * as stacks from '../../stacks/store/stacks.ts'
import * as stackTemplates from '../../templates/store/stack-templates.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import * as generators from '../store/generators.ts'
import * as registrations from '../store/registrations.ts'

export async function deleteGenerator(
  deps: { sql: Sql; seal: Seal; subscriptionCache: SubscriptionCache; wakeFeed: () => void },
  { generatorId: id, actor }: { generatorId: string; actor: Actor },
): Promise<void> {
  await deps.sql.begin(async (sql) => {
    // Blocks new stacks and registrations, whose transactions take a share lock on the generator.
    const generator = await generators.lockForDeletion(sql, { id })
    if (generator === null) throw new ApiError('generator_not_found', 'no such generator')
    if (generator.is_system) throw new ApiError('cannot_delete_system_generator', 'the system generator cannot be deleted')
    const stackIds = (await stacks.listLiveOfGenerator(sql, { generator_id: id })).map((stack) => stack.id)
    await registrations.removeAllOfGenerator(sql, { owner_id: id })
    await generators.markDeleted(sql, { id })
    const templates = await stackTemplates.markDeletedOfGenerator(sql, { owner_id: id })
    await recordAuditEntry(sql, {
      actor,
      action: 'generator.deleted',
      resource: { type: 'generator', id },
      details: { stacks: stackIds.length, templates },
    })
    await deleteStacks(sql, deps, { stackIds, actor })
  })
  deps.wakeFeed()
}
