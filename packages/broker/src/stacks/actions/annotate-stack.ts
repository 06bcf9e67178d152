// Adds or removes an annotation of a stack. Targets on agents with the same annotation change in the same transaction.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { StackAnnotation } from '@brokkr/contract/stacks/stack.ts'
import type { Sql } from '@brokkr/postgres'
import { annotationsMax } from '../../agents/actions/annotate-agent.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { requireAnnotation } from '../../rules/names.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import { changeStack, lockStack, toAnnotationKey } from '../../targeting/actions.ts'
import * as annotations from '../../targeting/store/annotations.ts'
import { requireLiveStack } from './stacks.ts'

type Deps = { sql: Sql; wakeFeed: () => void }

export async function addStackAnnotation(
  deps: Deps,
  input: { stackId: string; key: string; value: string; actor: Actor },
): Promise<StackAnnotation> {
  const { stackId, key, value } = input
  requireAnnotation(key, value)
  const added = await deps.sql.begin(async (sql) => {
    const [, , { held }] = await sql.pipeline((tx) => [
      lockStack(tx, stackId),
      requireLiveStack(tx, stackId),
      annotations.countOfStack(tx, { stack_id: stackId }),
    ])
    if (held >= annotationsMax)
      throw new ApiError('limit_exceeded', `a stack has at most ${annotationsMax} annotations`, { details: { limit: annotationsMax } })
    const entry = { actor: input.actor, action: 'stack.annotation_added', resource: { type: 'stack', id: stackId }, details: { key } }
    return sql.commitWith(
      (tx) => [
        recordAuditEntry(tx, entry),
        changeStack(tx, stackId, [toAnnotationKey(key, value)], () =>
          annotations.addToStack(tx, { id: uuid7(), stack_id: stackId, key, value }),
        ),
      ],
      ([, row]) => row,
    )
  })
  deps.wakeFeed()
  return added
}

export async function removeStackAnnotation(deps: Deps, input: { stackId: string; key: string; actor: Actor }): Promise<void> {
  const { stackId, key } = input
  await deps.sql.begin(async (sql) => {
    const [, , existing] = await sql.pipeline((tx) => [
      lockStack(tx, stackId),
      requireLiveStack(tx, stackId),
      annotations.ofStack(tx, { stack_id: stackId }),
    ])
    const annotation = existing.find((row) => row.key === key)
    if (annotation === undefined) throw new ApiError('stack_annotation_not_found', 'the stack has no annotation with this key')
    const entry = { actor: input.actor, action: 'stack.annotation_removed', resource: { type: 'stack', id: stackId }, details: { key } }
    return sql.commitWith(
      (tx) => [
        recordAuditEntry(tx, entry),
        changeStack(tx, stackId, [toAnnotationKey(key, annotation.value)], () =>
          annotations.removeFromStack(tx, { stack_id: stackId, key }),
        ),
      ],
      () => undefined,
    )
  })
  deps.wakeFeed()
}
