// Resource trees over HTTP: agents report them, readers get one per agent.
import type { BrokerDeps } from '../deps.ts'
import { byAgentId } from '../http/response/list-order.ts'
import { page } from '../http/response/paging.ts'
import type { Handler } from '../http/server/handler.ts'
import { recordTree } from './actions.ts'
import * as agentStackInventory from './store.ts'

const cap = 1000

export const handleReport: Handler<'reportInventory', BrokerDeps> = (deps, { params, body }) =>
  recordTree(deps, { agentId: params.id, report: body })

export const handleGetTree: Handler<'getStackTree', BrokerDeps> = async ({ sql }, request) => {
  const filter = { stack_id: request.params.id, agent_id: request.query.agent_id ?? null }
  const trees = await page(request, byAgentId, {
    name: 'getStackTree',
    cap,
    read: ({ after: [after_agent], limit }) => agentStackInventory.list(sql, { ...filter, after_agent, limit }),
    bytesOf: ({ bytes }) => bytes,
  })
  return trees.map(({ agent_id, rev, observed_at, nodes }) => ({ agent_id, rev, observed_at, nodes: Object.values(nodes) }))
}
