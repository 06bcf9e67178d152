// Puts a label on a stack or takes it off; agents that carry the same label come and go in the same transaction.

import { ApiError } from '@brokkr/contract/error.ts'
import type { StackLabel } from '@brokkr/contract/stack.ts'
import type { z } from 'zod'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { requireLabel } from '../domain/names.ts'
import { uuid7 } from '../domain/uuid7.ts'
import * as labels from '../store/labels.ts'
import type { Sql } from '../store/sql.ts'
import { labelsMax } from './label-agent.ts'
import { requireLiveStack } from './require-live-stack.ts'
import { lockTargeting, retarget } from './retarget.ts'

export interface LabelStack {
  readonly stackId: string
  readonly label: string
  readonly by: Actor
}
type Deps = { sql: Sql; wakeFeed: () => void }

export async function addStackLabel(deps: Deps, input: LabelStack): Promise<z.output<typeof StackLabel>> {
  const label = requireLabel(input.label)
  const added = await deps.sql.begin(async (sql) => {
    await lockTargeting(sql)
    await requireLiveStack(sql, input.stackId)
    const { held } = await labels.countOfStack(sql, { stack_id: input.stackId })
    if (held >= labelsMax)
      throw new ApiError('limit_exceeded', `a stack has at most ${labelsMax} labels`, { details: { limit: labelsMax } })
    const inserted = await labels.addToStack(sql, { id: uuid7(), stack_id: input.stackId, label })
    await retarget(sql, { stackId: input.stackId })
    await recordDeed(sql, { by: input.by, action: 'stack.label_added', on: { type: 'stack', id: input.stackId }, details: { label } })
    return inserted
  })
  deps.wakeFeed()
  return added
}

export async function removeStackLabel(deps: Deps, input: LabelStack): Promise<void> {
  await deps.sql.begin(async (sql) => {
    await lockTargeting(sql)
    const removed = await labels.removeFromStack(sql, { stack_id: input.stackId, label: input.label })
    if (removed === 0) throw new ApiError('stack_label_not_found', 'the stack does not carry this label')
    await retarget(sql, { stackId: input.stackId })
    await recordDeed(sql, {
      by: input.by,
      action: 'stack.label_removed',
      on: { type: 'stack', id: input.stackId },
      details: { label: input.label },
    })
  })
  deps.wakeFeed()
}
