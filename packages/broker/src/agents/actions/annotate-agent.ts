// Adds or removes an annotation of an agent. Targets of stacks with the same annotation change in the same transaction.
import type { AgentAnnotation } from '@brokkr/contract/agents/agent.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { requireAnnotation } from '../../rules/names.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import { changeAgent, lockAgent, toAnnotationKey } from '../../targeting/actions.ts'
import * as annotations from '../../targeting/store/annotations.ts'
import { requireLiveAgent } from './agents.ts'

type Deps = { sql: Sql; wakeFeed: () => void }
export const annotationsMax = 256

export async function addAgentAnnotation(
  deps: Deps,
  input: { agentId: string; key: string; value: string; actor: Actor },
): Promise<AgentAnnotation> {
  const { agentId, key, value } = input
  requireAnnotation(key, value)
  const annotation = await deps.sql.begin(async (sql) => {
    const [, , { held }] = await sql.pipeline((tx) => [
      lockAgent(tx, agentId),
      requireLiveAgent(tx, agentId, 'fk_agent_annotations_agent'),
      annotations.countOfAgent(tx, { agent_id: agentId }),
    ])
    if (held >= annotationsMax)
      throw new ApiError('limit_exceeded', `an agent has at most ${annotationsMax} annotations`, { details: { limit: annotationsMax } })
    const entry = { actor: input.actor, action: 'agent.annotation_added', resource: { type: 'agent', id: agentId }, details: { key } }
    return sql.commitWith(
      (tx) => [
        recordAuditEntry(tx, entry),
        changeAgent(tx, agentId, [toAnnotationKey(key, value)], () =>
          annotations.addToAgent(tx, { id: uuid7(), agent_id: agentId, key, value }),
        ),
      ],
      ([, row]) => row,
    )
  })
  deps.wakeFeed()
  return annotation
}

export async function removeAgentAnnotation(deps: Deps, input: { agentId: string; key: string; actor: Actor }): Promise<void> {
  const { agentId, key } = input
  await deps.sql.begin(async (sql) => {
    const [, existing] = await sql.pipeline((tx) => [lockAgent(tx, agentId), annotations.ofAgent(tx, { agent_id: agentId })])
    const annotation = existing.find((row) => row.key === key)
    if (annotation === undefined) throw new ApiError('agent_annotation_not_found', 'the agent has no annotation with this key')
    const entry = { actor: input.actor, action: 'agent.annotation_removed', resource: { type: 'agent', id: agentId }, details: { key } }
    return sql.commitWith(
      (tx) => [
        recordAuditEntry(tx, entry),
        changeAgent(tx, agentId, [toAnnotationKey(key, annotation.value)], () =>
          annotations.removeFromAgent(tx, { agent_id: agentId, key }),
        ),
      ],
      () => undefined,
    )
  })
  deps.wakeFeed()
}
