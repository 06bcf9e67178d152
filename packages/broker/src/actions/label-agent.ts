// Puts a label on an agent or takes it off; stacks that carry the same label come and go in the same transaction.
import type { AgentLabel } from '@brokkr/contract/agent.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import type { z } from 'zod'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { requireLabel } from '../domain/names.ts'
import { uuid7 } from '../domain/uuid7.ts'
import * as labels from '../store/labels.ts'
import type { Sql } from '../store/sql.ts'
import { requireLiveAgent } from './require-live-agent.ts'
import { lockTargeting, retarget } from './retarget.ts'

export interface LabelAgent {
  readonly agentId: string
  readonly label: string
  readonly by: Actor
}
type Deps = { sql: Sql; wakeFeed: () => void }
export const labelsMax = 256

export async function addAgentLabel(deps: Deps, input: LabelAgent): Promise<z.output<typeof AgentLabel>> {
  const label = requireLabel(input.label)
  const added = await deps.sql.begin(async (sql) => {
    await lockTargeting(sql)
    await requireLiveAgent(sql, input.agentId, 'fk_agent_labels_agent')
    const { held } = await labels.countOfAgent(sql, { agent_id: input.agentId })
    if (held >= labelsMax)
      throw new ApiError('limit_exceeded', `an agent has at most ${labelsMax} labels`, { details: { limit: labelsMax } })
    const inserted = await labels.addToAgent(sql, { id: uuid7(), agent_id: input.agentId, label })
    await retarget(sql, { agentId: input.agentId })
    await recordDeed(sql, { by: input.by, action: 'agent.label_added', on: { type: 'agent', id: input.agentId }, details: { label } })
    return inserted
  })
  deps.wakeFeed()
  return added
}

export async function removeAgentLabel(deps: Deps, input: LabelAgent): Promise<void> {
  await deps.sql.begin(async (sql) => {
    await lockTargeting(sql)
    const removed = await labels.removeFromAgent(sql, { agent_id: input.agentId, label: input.label })
    if (removed === 0) throw new ApiError('agent_label_not_found', 'the agent does not carry this label')
    await retarget(sql, { agentId: input.agentId })
    await recordDeed(sql, {
      by: input.by,
      action: 'agent.label_removed',
      on: { type: 'agent', id: input.agentId },
      details: { label: input.label },
    })
  })
  deps.wakeFeed()
}
