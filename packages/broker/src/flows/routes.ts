// Flows over HTTP: the list of all clusters, one flow with its orders, and new orders.
import type { BrokerDeps } from '../deps.ts'
import { toActor } from '../http/request/actor.ts'
import { byName } from '../http/response/list-order.ts'
import { page } from '../http/response/paging.ts'
import type { Handler } from '../http/server/handler.ts'
import { createFlowOrder, flowNotFound } from './actions.ts'
import * as flowOrders from './store/flow-orders.ts'
import * as flows from './store/flows.ts'

const listMax = 1000
const ordersMax = 20
/** Everything but the report, which has at most 4 KiB. */
const rowBytes = 2048

export const handleList: Handler<'listFlows', BrokerDeps> = ({ sql }, request) => {
  const { query, principal } = request
  const generator_id = principal.kind === 'generator' ? principal.id : null
  const { agent_id = null, stack_id = null, state = null, name = null, search = null, stale = null } = query
  const filter = { generator_id, agent_id, stack_id, state, name, search, stale }
  const read =
    name !== null ? flows.listNamed : agent_id !== null ? flows.listOfAgent : generator_id !== null ? flows.listOwned : flows.list
  return page(request, byName, {
    name: 'listFlows',
    cap: listMax,
    read: ({ after: [after_name, after_id], limit }) => read(sql, { ...filter, after_name, after_id, limit }),
    bytesOf: ({ report }) => rowBytes + Buffer.byteLength(JSON.stringify(report)),
  })
}

export const handleGet: Handler<'getFlow', BrokerDeps> = async ({ sql }, { params }) => {
  const flow = await flows.get(sql, { id: params.id })
  if (flow === null) throw flowNotFound()
  return { ...flow, orders: await flowOrders.list(sql, { flow_id: params.id, limit: ordersMax }) }
}

export const handleCreateOrder: Handler<'createFlowOrder', BrokerDeps> = (deps, request) =>
  createFlowOrder(deps, { flowId: request.params.id, action: request.body, actor: toActor(request) })
