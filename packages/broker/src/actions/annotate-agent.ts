// Puts an annotation on an agent or takes it off; stacks that carry the same pair come and go in the same transaction.
import type { AgentAnnotation } from '@brokkr/contract/agent.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { requireAnnotation } from '../domain/names.ts'
import { uuid7 } from '../domain/uuid7.ts'
import * as annotations from '../store/annotations.ts'
import type { Sql } from '../store/sql.ts'
import { requireLiveAgent } from './require-live-agent.ts'
import { lockTargeting, retarget } from './retarget.ts'

type Deps = { sql: Sql; wakeFeed: () => void }
export const annotationsMax = 256

export async function addAgentAnnotation(
  deps: Deps,
  input: { agentId: string; key: string; value: string; by: Actor },
): Promise<AgentAnnotation> {
  const { agentId, key, value } = input
  requireAnnotation(key, value)
  const added = await deps.sql.begin(async (sql) => {
    await lockTargeting(sql)
    await requireLiveAgent(sql, agentId, 'fk_agent_annotations_agent')
    const { held } = await annotations.countOfAgent(sql, { agent_id: agentId })
    if (held >= annotationsMax)
      throw new ApiError('limit_exceeded', `an agent has at most ${annotationsMax} annotations`, { details: { limit: annotationsMax } })
    const inserted = await annotations.addToAgent(sql, { id: uuid7(), agent_id: agentId, key, value })
    await retarget(sql, { agentId })
    await recordDeed(sql, { by: input.by, action: 'agent.annotation_added', on: { type: 'agent', id: agentId }, details: { key } })
    return inserted
  })
  deps.wakeFeed()
  return added
}

export async function removeAgentAnnotation(deps: Deps, input: { agentId: string; key: string; by: Actor }): Promise<void> {
  const { agentId, key } = input
  await deps.sql.begin(async (sql) => {
    await lockTargeting(sql)
    const removed = await annotations.removeFromAgent(sql, { agent_id: agentId, key })
    if (removed === 0) throw new ApiError('agent_annotation_not_found', 'the agent does not carry an annotation with this key')
    await retarget(sql, { agentId })
    await recordDeed(sql, { by: input.by, action: 'agent.annotation_removed', on: { type: 'agent', id: agentId }, details: { key } })
  })
  deps.wakeFeed()
}
