// Adds or removes a label of an agent. Targets of stacks with the same label change in the same transaction.
import type { AgentLabel } from '@brokkr/contract/agents/agent.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import type { z } from 'zod'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { requireLabel } from '../../rules/names.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import { changeAgent, lockAgent, toLabelKey } from '../../targeting/actions.ts'
import * as labels from '../../targeting/store/labels.ts'
import { requireLiveAgent } from './agents.ts'

export interface LabelAgent {
  readonly agentId: string
  readonly label: string
  readonly actor: Actor
}
type Deps = { sql: Sql; wakeFeed: () => void }
export const labelsMax = 256

export async function addAgentLabel(deps: Deps, input: LabelAgent): Promise<z.output<typeof AgentLabel>> {
  const label = requireLabel(input.label)
  const added = await deps.sql.begin(async (sql) => {
    const [, , { held }] = await sql.pipeline((tx) => [
      lockAgent(tx, input.agentId),
      requireLiveAgent(tx, input.agentId, 'fk_agent_labels_agent'),
      labels.countOfAgent(tx, { agent_id: input.agentId }),
    ])
    if (held >= labelsMax)
      throw new ApiError('limit_exceeded', `an agent has at most ${labelsMax} labels`, { details: { limit: labelsMax } })
    const entry = { actor: input.actor, action: 'agent.label_added', resource: { type: 'agent', id: input.agentId }, details: { label } }
    return sql.commitWith(
      (tx) => [
        recordAuditEntry(tx, entry),
        changeAgent(tx, input.agentId, [toLabelKey(label)], () => labels.addToAgent(tx, { id: uuid7(), agent_id: input.agentId, label })),
      ],
      ([, row]) => row,
    )
  })
  deps.wakeFeed()
  return added
}

export async function removeAgentLabel(deps: Deps, input: LabelAgent): Promise<void> {
  await deps.sql.begin(async (sql) => {
    const { agentId, label } = input
    const [, existing] = await sql.pipeline((tx) => [lockAgent(tx, agentId), labels.ofAgent(tx, { agent_id: agentId })])
    if (!existing.some((row) => row.label === label)) throw new ApiError('agent_label_not_found', 'the agent does not have this label')
    const entry = { actor: input.actor, action: 'agent.label_removed', resource: { type: 'agent', id: agentId }, details: { label } }
    return sql.commitWith(
      (tx) => [
        recordAuditEntry(tx, entry),
        changeAgent(tx, agentId, [toLabelKey(label)], () => labels.removeFromAgent(tx, { agent_id: agentId, label })),
      ],
      () => undefined,
    )
  })
  deps.wakeFeed()
}
