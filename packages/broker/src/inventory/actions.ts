// Stores the resource tree that an agent reports: completely, or merged into the stored tree in one statement.
import { ApiError } from '@brokkr/contract/errors.ts'
import { type NewTreeNode, type TreeNode, treeNodesMax } from '@brokkr/contract/stacks/resource-tree.ts'
import type { Sql } from '@brokkr/postgres'
import * as agentTargets from '../targeting/store/agent-targets.ts'
import * as agentStackInventory from './store.ts'

export interface TreeReport {
  readonly stack_id: string
  readonly rev: number
  readonly full: boolean
  readonly nodes: readonly NewTreeNode[]
  readonly removed_uids: string[]
  readonly base_rev?: number | undefined
  readonly base_nodes?: number | undefined
}

export async function recordTree(deps: { sql: Sql; wakeFeed: () => void }, input: { agentId: string; report: TreeReport }): Promise<void> {
  const { report } = input
  const pair = { agent_id: input.agentId, stack_id: report.stack_id }
  if ((await agentTargets.hasOrRemoves(deps.sql, pair)) === null)
    throw new ApiError('agent_not_associated', 'the stack does not target this agent')
  const tree = { ...pair, rev: report.rev, nodes: JSON.stringify(toNodesByUid(report.nodes)) }
  if (report.full) await agentStackInventory.replace(deps.sql, tree)
  else await mergeTree(deps.sql, { ...tree, removed_uids: report.removed_uids }, report)
  deps.wakeFeed()
}

async function mergeTree(
  sql: Sql,
  tree: Parameters<typeof agentStackInventory.merge>[1],
  base: Pick<TreeReport, 'base_rev' | 'base_nodes'>,
): Promise<void> {
  await sql.begin(async (tx) => {
    const stored = await agentStackInventory.lock(tx, { agent_id: tree.agent_id, stack_id: tree.stack_id })
    if (stored === null)
      throw new ApiError('inventory_base_unknown', 'no tree of this stack is stored for this agent: send a complete tree (full: true)')
    if (stored.rev > tree.rev) return
    // A restored database, or a delta that was lost, left another tree than the one that the agent compared with.
    if (stored.rev !== (base.base_rev ?? stored.rev) || stored.node_count !== (base.base_nodes ?? stored.node_count))
      throw new ApiError('inventory_base_unknown', 'the stored tree is not the base of these changes: send a complete tree (full: true)')
    const { node_count } = await agentStackInventory.merge(tx, tree)
    if (node_count > treeNodesMax)
      throw new ApiError('limit_exceeded', `a tree holds at most ${treeNodesMax} nodes: send a complete tree without the rest`, {
        details: { limit: treeNodesMax },
      })
  })
}

const messageCharsMax = 1024

const toNodesByUid = (nodes: readonly NewTreeNode[]): Record<string, TreeNode> =>
  Object.fromEntries(nodes.map((node) => [node.uid, toStoredNode(node)]))

const toStoredNode = ({ uid, group, kind, namespace, name, owner_uid, health, message }: NewTreeNode): TreeNode => ({
  uid,
  group,
  kind,
  namespace: namespace ?? null,
  name,
  owner_uid: owner_uid ?? null,
  health,
  message: message?.slice(0, messageCharsMax).toWellFormed() ?? null,
})
