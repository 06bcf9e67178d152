// Puts an annotation on a stack or takes it off; agents that carry the same pair come and go in the same transaction.
import { ApiError } from '@brokkr/contract/error.ts'
import type { StackAnnotation } from '@brokkr/contract/stack.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { requireAnnotation } from '../domain/names.ts'
import { uuid7 } from '../domain/uuid7.ts'
import * as annotations from '../store/annotations.ts'
import type { Sql } from '../store/sql.ts'
import { annotationsMax } from './annotate-agent.ts'
import { requireLiveStack } from './require-live-stack.ts'
import { lockTargeting, retarget } from './retarget.ts'

type Deps = { sql: Sql; wakeFeed: () => void }

export async function addStackAnnotation(
  deps: Deps,
  input: { stackId: string; key: string; value: string; by: Actor },
): Promise<StackAnnotation> {
  const { stackId, key, value } = input
  requireAnnotation(key, value)
  const added = await deps.sql.begin(async (sql) => {
    await lockTargeting(sql)
    await requireLiveStack(sql, stackId)
    const { held } = await annotations.countOfStack(sql, { stack_id: stackId })
    if (held >= annotationsMax)
      throw new ApiError('limit_exceeded', `a stack has at most ${annotationsMax} annotations`, { details: { limit: annotationsMax } })
    const inserted = await annotations.addToStack(sql, { id: uuid7(), stack_id: stackId, key, value })
    await retarget(sql, { stackId })
    await recordDeed(sql, { by: input.by, action: 'stack.annotation_added', on: { type: 'stack', id: stackId }, details: { key } })
    return inserted
  })
  deps.wakeFeed()
  return added
}

export async function removeStackAnnotation(deps: Deps, input: { stackId: string; key: string; by: Actor }): Promise<void> {
  const { stackId, key } = input
  await deps.sql.begin(async (sql) => {
    await lockTargeting(sql)
    const removed = await annotations.removeFromStack(sql, { stack_id: stackId, key })
    if (removed === 0) throw new ApiError('stack_annotation_not_found', 'the stack does not carry an annotation with this key')
    await retarget(sql, { stackId })
    await recordDeed(sql, { by: input.by, action: 'stack.annotation_removed', on: { type: 'stack', id: stackId }, details: { key } })
  })
  deps.wakeFeed()
}
