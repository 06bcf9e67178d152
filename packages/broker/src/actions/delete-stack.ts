// Deletes a stack: it and its live revisions are marked deleted, a live deletion marker takes the next number, and every
// pair ends with its removal due. Agents that were away for weeks still see the marker until they confirm.
import { ApiError } from '@brokkr/contract/error.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import type { Seal } from '../seal.ts'
import * as deploymentObjects from '../store/deployment-objects.ts'
import type { Sql } from '../store/sql.ts'
import * as stacks from '../store/stacks.ts'
import { lockTargeting, retarget } from './retarget.ts'
import { insertObject } from './submit-deployment-object.ts'

export async function deleteStack(
  deps: { sql: Sql; seal: Seal; wakeFeed: () => void },
  input: { stackId: string; by: Actor },
): Promise<void> {
  await deps.sql.begin(async (sql) => {
    await lockTargeting(sql)
    const marked = await stacks.markDeleted(sql, { stack_id: input.stackId })
    if (marked === null) throw new ApiError('stack_not_found', 'no such stack')
    await deploymentObjects.markDeletedOf(sql, { stack_id: input.stackId })
    const marker = await insertObject(sql, deps.seal, { ...input, yamlContent: '', isDeletionMarker: true, sequenceId: marked.sequence_id })
    await stacks.setHead(sql, { stack_id: input.stackId, object_id: marker.id })
    await retarget(sql, { stackId: input.stackId })
    await recordDeed(sql, { by: input.by, action: 'stack.deleted', on: { type: 'stack', id: input.stackId } })
  })
  deps.wakeFeed()
}
