// Changes name, cluster or status of an agent; omitted fields stay unchanged.
import type { Agent } from '@brokkr/contract/agents/agent.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { changedFields } from '../../rules/changed-fields.ts'
import { requireName, requireStatus } from '../../rules/names.ts'
import * as agents from '../store/agents.ts'

export interface AgentChange {
  readonly agentId: string
  readonly name: string | undefined
  readonly cluster_name: string | undefined
  readonly status: string | undefined
  /** Throws if the agent changed after the caller read it. */
  readonly precondition: (row: { readonly updated_at: string }) => void
  readonly actor: Actor
}

export async function updateAgent(deps: { sql: Sql; wakeFeed: () => void }, input: AgentChange): Promise<Agent> {
  const { agentId: id, name, cluster_name, status } = input
  const agent = await deps.sql.begin(async (sql) => {
    const before = await agents.lock(sql, { id })
    if (before === null) throw new ApiError('agent_not_found', 'no such agent')
    input.precondition(before)
    const after = {
      name: name === undefined ? before.name : requireName(name, 'name', 'invalid_agent'),
      cluster_name: cluster_name === undefined ? before.cluster_name : requireName(cluster_name, 'cluster_name', 'invalid_agent'),
      status: status === undefined ? before.status : requireStatus(status),
    }
    const fields = changedFields(before, after)
    if (fields.length > 0) {
      await agents.update(sql, { id, ...after })
      await recordAuditEntry(sql, { actor: input.actor, action: 'agent.updated', resource: { type: 'agent', id }, details: { fields } })
    }
    return agents.get(sql, { id })
  })
  deps.wakeFeed()
  return agent!
}
