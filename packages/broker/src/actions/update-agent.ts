// Changes name, cluster or status of an agent; what is not sent stays.
import type { Agent } from '@brokkr/contract/agent.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { changedFields } from '../domain/changed-fields.ts'
import { requireName, requireStatus } from '../domain/names.ts'
import * as agents from '../store/agents.ts'
import type { Sql } from '../store/sql.ts'

export interface AgentChange {
  readonly agentId: string
  readonly name: string | undefined
  readonly cluster_name: string | undefined
  readonly status: string | undefined
  /** Throws when the caller read an older one. */
  readonly precondition: (row: { readonly updated_at: string }) => void
  readonly by: Actor
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
      await recordDeed(sql, { by: input.by, action: 'agent.updated', on: { type: 'agent', id }, details: { fields } })
    }
    return agents.get(sql, { id })
  })
  deps.wakeFeed()
  return agent!
}
