// Adds or removes a label of a stack. Targets on agents with the same label change in the same transaction.

import { ApiError } from '@brokkr/contract/errors.ts'
import type { StackLabel } from '@brokkr/contract/stacks/stack.ts'
import type { Sql } from '@brokkr/postgres'
import type { z } from 'zod'
import { labelsMax } from '../../agents/actions/label-agent.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { requireLabel } from '../../rules/names.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import { changeStack, lockStack, toLabelKey } from '../../targeting/actions.ts'
import * as labels from '../../targeting/store/labels.ts'
import { requireLiveStack } from './stacks.ts'

export interface LabelStack {
  readonly stackId: string
  readonly label: string
  readonly actor: Actor
}
type Deps = { sql: Sql; wakeFeed: () => void }

export async function addStackLabel(deps: Deps, input: LabelStack): Promise<z.output<typeof StackLabel>> {
  const label = requireLabel(input.label)
  const added = await deps.sql.begin(async (sql) => {
    const [, , { held }] = await sql.pipeline((tx) => [
      lockStack(tx, input.stackId),
      requireLiveStack(tx, input.stackId),
      labels.countOfStack(tx, { stack_id: input.stackId }),
    ])
    if (held >= labelsMax)
      throw new ApiError('limit_exceeded', `a stack has at most ${labelsMax} labels`, { details: { limit: labelsMax } })
    const entry = { actor: input.actor, action: 'stack.label_added', resource: { type: 'stack', id: input.stackId }, details: { label } }
    return sql.commitWith(
      (tx) => [
        recordAuditEntry(tx, entry),
        changeStack(tx, input.stackId, [toLabelKey(label)], () => labels.addToStack(tx, { id: uuid7(), stack_id: input.stackId, label })),
      ],
      ([, row]) => row,
    )
  })
  deps.wakeFeed()
  return added
}

export async function removeStackLabel(deps: Deps, input: LabelStack): Promise<void> {
  await deps.sql.begin(async (sql) => {
    const { stackId, label } = input
    const [, , existing] = await sql.pipeline((tx) => [
      lockStack(tx, stackId),
      requireLiveStack(tx, stackId),
      labels.ofStack(tx, { stack_id: stackId }),
    ])
    if (!existing.some((row) => row.label === label)) throw new ApiError('stack_label_not_found', 'the stack does not have this label')
    const entry = { actor: input.actor, action: 'stack.label_removed', resource: { type: 'stack', id: stackId }, details: { label } }
    return sql.commitWith(
      (tx) => [
        recordAuditEntry(tx, entry),
        changeStack(tx, stackId, [toLabelKey(label)], () => labels.removeFromStack(tx, { stack_id: stackId, label })),
      ],
      () => undefined,
    )
  })
  deps.wakeFeed()
}
