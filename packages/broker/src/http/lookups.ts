// The look-ups behind "the thing exists" and "it is the caller's", over the store.

import * as agentTargets from '../store/agent-targets.ts'
import * as agents from '../store/agents.ts'
import * as deploymentObjects from '../store/deployment-objects.ts'
import * as generators from '../store/generators.ts'
import type { Sql } from '../store/sql.ts'
import * as stacks from '../store/stacks.ts'
import type { Things } from './check-permit.ts'

export const createThings = (sql: Sql): Things => ({
  stack: async (id) => {
    const row = await stacks.get(sql, { id, with_deleted: true })
    return row === null ? null : { generatorId: row.generator_id, isDeleted: row.deleted_at !== null, row }
  },
  deploymentObject: async (id) => {
    const found = await deploymentObjects.ownerOf(sql, { id })
    return found === null ? null : { stackId: found.stack_id, generatorId: found.generator_id, isDeleted: found.is_deleted }
  },
  agent: async (id) => asThing(await agents.get(sql, { id, with_deleted: true })),
  agentNamed: async (name, clusterName) => {
    const found = await agents.find(sql, { name, cluster_name: clusterName })
    return found === null ? null : { agentId: found.id }
  },
  generator: async (id) => asThing(await generators.get(sql, { id, with_deleted: true })),
  agentHasStack: async (agentId, stackId) => (await agentTargets.hasOrRemoves(sql, { agent_id: agentId, stack_id: stackId })) !== null,
})

const asThing = (row: { readonly deleted_at: string | null } | null) => (row === null ? null : { isDeleted: row.deleted_at !== null, row })
