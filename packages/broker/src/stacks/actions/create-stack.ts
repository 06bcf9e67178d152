// Creates a stack with its labels, annotations and targets on matching agents in one transaction.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Stack } from '@brokkr/contract/stacks/stack.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import * as generators from '../../generators/store/generators.ts'
import { requireAnnotation, requireDescription, requireLabel, requireName } from '../../rules/names.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import { changeStack } from '../../targeting/actions/retarget.ts'
import * as annotationsStore from '../../targeting/store/annotations.ts'
import * as labelsStore from '../../targeting/store/labels.ts'
import { enqueueDeliveries } from '../../webhooks/delivery/enqueue.ts'
import { stackCreated } from '../../webhooks/delivery/rules/webhook-events.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import * as stacks from '../store/stacks.ts'

export interface NewStack {
  readonly name: string
  readonly description: string | null | undefined
  readonly generatorId: string
  readonly labels: readonly string[]
  readonly annotations: Readonly<Record<string, string>>
  readonly drift: string
  readonly actor: Actor
}

export async function createStack(
  deps: { sql: Sql; subscriptionCache: SubscriptionCache; wakeFeed: () => void },
  input: NewStack,
): Promise<Stack> {
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
    // The row of a deleted generator still exists, so the foreign key alone would allow the insert.
    if ((await generators.holdLive(sql, { ids: [row.generator_id] })).length === 0)
      throw new ApiError('foreign_key_violation', 'no such generator', { details: { constraint: 'stacks_generator_id_fkey' } })
    const insertedStack = await stacks.insert(sql, row)
    await labelsStore.addManyToStack(sql, { stack_id: row.id, labels })
    await annotationsStore.addManyToStack(sql, {
      stack_id: row.id,
      keys: annotations.map(([key]) => key),
      values: annotations.map(([, value]) => value),
    })
    await recordAuditEntry(sql, {
      actor: input.actor,
      action: 'stack.created',
      resource: { type: 'stack', id: row.id },
      details: { name: row.name },
    })
    await enqueueDeliveries(sql, deps.subscriptionCache, [stackCreated(insertedStack)])
    // A stack without labels and annotations matches no agent, so no targeting lock is needed.
    if (labels.length === 0 && annotations.length === 0) return insertedStack
    return sql.commitWith(
      (tx) => [changeStack(tx, row.id, [], async () => undefined)],
      () => insertedStack,
    )
  })
  deps.wakeFeed()
  return stack
}
