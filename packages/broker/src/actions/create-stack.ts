// Creates a stack with its labels and annotations; agents that match take it in the same transaction.
import { ApiError } from '@brokkr/contract/error.ts'
import type { Stack } from '@brokkr/contract/stack.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { requireAnnotation, requireDescription, requireLabel, requireName } from '../domain/names.ts'
import { uuid7 } from '../domain/uuid7.ts'
import { stackCreated } from '../domain/webhook-events.ts'
import * as annotationsStore from '../store/annotations.ts'
import * as generators from '../store/generators.ts'
import * as labelsStore from '../store/labels.ts'
import type { Sql } from '../store/sql.ts'
import * as stacks from '../store/stacks.ts'
import { enqueue } from '../webhooks/enqueue.ts'
import type { Subscriptions } from '../webhooks/subscriptions.ts'
import { lockTargeting, retarget } from './retarget.ts'

export interface NewStack {
  readonly name: string
  readonly description: string | null | undefined
  readonly generatorId: string
  readonly labels: readonly string[]
  readonly annotations: Readonly<Record<string, string>>
  readonly drift: string
  readonly by: Actor
}

export async function createStack(deps: { sql: Sql; hooks: Subscriptions; wakeFeed: () => void }, input: NewStack): Promise<Stack> {
  const row = {
    id: uuid7(),
    name: requireName(input.name, 'name'),
    description: requireDescription(input.description),
    generator_id: input.generatorId,
    drift: input.drift,
  }
  const labels = [...new Set(input.labels.map(requireLabel))]
  const annotations = Object.entries(input.annotations)
  for (const [key, value] of annotations) requireAnnotation(key, value)
  const stack = await deps.sql.begin(async (sql) => {
    await lockTargeting(sql)
    // A deleted generator is still a row, and must take no new stacks.
    if ((await generators.get(sql, { id: row.generator_id })) === null)
      throw new ApiError('foreign_key_violation', 'no such generator', { details: { constraint: 'stacks_generator_id_fkey' } })
    const inserted = await stacks.insert(sql, row)
    await labelsStore.addManyToStack(sql, { stack_id: row.id, labels })
    await annotationsStore.addManyToStack(sql, {
      stack_id: row.id,
      keys: annotations.map(([key]) => key),
      values: annotations.map(([, value]) => value),
    })
    await retarget(sql, { stackId: row.id })
    await recordDeed(sql, { by: input.by, action: 'stack.created', on: { type: 'stack', id: row.id }, details: { name: row.name } })
    await enqueue(sql, deps.hooks, [stackCreated(inserted)])
    return inserted
  })
  deps.wakeFeed()
  return stack
}
