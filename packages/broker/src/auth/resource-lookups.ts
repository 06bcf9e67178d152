// Resource lookups of the permission check, backed by the stores.

import type { Sql } from '@brokkr/postgres'
import * as agents from '../agents/store/agents.ts'
import * as deploymentObjects from '../deployments/store/deployment-objects.ts'
import * as flows from '../flows/store/flows.ts'
import * as generators from '../generators/store/generators.ts'
import * as plans from '../plans/store/plans.ts'
import * as stacks from '../stacks/store/stacks.ts'
import * as agentTargets from '../targeting/store/agent-targets.ts'
import * as stackTemplates from '../templates/store/stack-templates.ts'
import type { ResourceLookups } from './check-permit.ts'

export const createResourceLookups = (sql: Sql): ResourceLookups => ({
  stack: async (id) => {
    const row = await stacks.get(sql, { id, with_deleted: true })
    return row === null ? null : { generatorId: row.generator_id, isDeleted: row.deleted_at !== null, row }
  },
  deploymentObject: async (id) => {
    const row = await deploymentObjects.findOwner(sql, { id })
    return row === null ? null : { stackId: row.stack_id, generatorId: row.generator_id, isDeleted: row.is_deleted }
  },
  agent: async (id) => toResource(await agents.get(sql, { id, with_deleted: true })),
  agentNamed: async (name, clusterName) => {
    const row = await agents.find(sql, { name, cluster_name: clusterName })
    return row === null ? null : { agentId: row.id }
  },
  generator: async (id) => toResource(await generators.get(sql, { id, with_deleted: true })),
  template: async (id) => {
    const row = await stackTemplates.get(sql, { id })
    return row === null ? null : { generatorId: row.generator_id, isDeleted: row.deleted_at !== null, row }
  },
  plan: async (id) => {
    const row = await plans.get(sql, { id })
    return row === null ? null : { stackId: row.stack_id, generatorId: row.generator_id }
  },
  flow: async (id) => {
    const row = await flows.get(sql, { id })
    return row === null ? null : { stackId: row.stack_id, generatorId: row.generator_id }
  },
  agentHasStack: async (agentId, stackId) => (await agentTargets.hasOrRemoves(sql, { agent_id: agentId, stack_id: stackId })) !== null,
})

const toResource = (row: { readonly deleted_at: string | null } | null) =>
  row === null ? null : { isDeleted: row.deleted_at !== null, row }
