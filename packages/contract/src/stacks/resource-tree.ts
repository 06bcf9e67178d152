// Resource trees: the members of a stack and the objects they own, as agents see them. They contain no manifests.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { HealthStatus } from '../health/deployment-health.ts'
import { AgentId, byId, pageQuery, StackId, Timestamp } from '../wire.ts'

/** Maximum number of nodes of one tree. */
export const treeNodesMax = 5000

const name = z.string().max(253)
const uid = z.string().min(1).max(128)

export const TreeNode = z.object({
  uid,
  group: name,
  kind: name,
  namespace: name.nullable(),
  name,
  owner_uid: uid.nullable(),
  health: HealthStatus,
  message: z.string().nullable(),
})
export type TreeNode = z.output<typeof TreeNode>

/** As agents send it: what may be null may be left out. */
export const NewTreeNode = TreeNode.extend({
  namespace: name.nullable().optional(),
  owner_uid: uid.nullable().optional(),
  message: z.string().max(65_536).nullable().optional(),
})
export type NewTreeNode = z.output<typeof NewTreeNode>

export const reportInventory = endpoint({
  method: 'POST',
  path: '/api/v1/agents/{id}/inventory',
  summary: 'Report the resource tree of a stack, completely or as changes to the stored tree; a report of an older rev changes nothing',
  params: byId(AgentId),
  body: z.object({
    stack_id: StackId,
    rev: z.int().min(0),
    full: z.boolean(),
    nodes: z.array(NewTreeNode).max(treeNodesMax),
    removed_uids: z.array(uid).max(treeNodesMax).default([]),
    /** Rev and number of nodes of the tree that a delta changes; another stored tree is answered with inventory_base_unknown. */
    base_rev: z.int().min(0).optional(),
    base_nodes: z.int().min(0).optional(),
  }),
  success: 204,
  errors: ['agent_pak_mismatch', 'agent_not_associated', 'inventory_base_unknown', 'limit_exceeded'],
})

export const getStackTree = endpoint({
  method: 'GET',
  path: '/api/v1/stacks/{id}/tree',
  summary: 'Read the resource trees of a stack, one per agent',
  params: byId(StackId),
  query: z.object({ agent_id: AgentId.optional(), ...pageQuery }),
  success: 200,
  response: z.array(z.object({ agent_id: AgentId, rev: z.int(), observed_at: Timestamp, nodes: z.array(TreeNode) })),
  errors: ['stack_not_found', 'stack_not_owned', 'invalid_cursor'],
})
