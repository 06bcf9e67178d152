// Work orders: create, list, claim, complete, cancel and retry, their output, and the log of finished ones.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { WorkOrder } from '@brokkr/contract/work-orders/work-order.ts'
import type { BrokerDeps } from '../deps.ts'
import { toActor } from '../http/request/actor.ts'
import { newestCompleted, newestFirst, oldestFirst } from '../http/response/list-order.ts'
import { page } from '../http/response/paging.ts'
import type { Handler } from '../http/server/handler.ts'
import { claimWorkOrder } from './actions/claim-work-order.ts'
import { appendWorkOrderOutput, completeWorkOrder } from './actions/report-work-order.ts'
import { createWorkOrder, deleteWorkOrder, retryWorkOrder } from './actions/work-orders.ts'
import { openFinishedOrder, openLogEntry, openOrder, openOutput } from './open-contents.ts'
import * as workOrderContents from './store/work-order-contents.ts'
import * as workOrderLog from './store/work-order-log.ts'
import * as workOrders from './store/work-orders.ts'

const listMax = 1000
const pendingMax = 100
/** Size of everything but the text. */
const stateBytes = 1024

export const handleList: Handler<'listWorkOrders', BrokerDeps> = async (deps, request) => {
  const { status = null, work_type = null } = request.query
  const places = await page(request, newestFirst, {
    name: 'listWorkOrders',
    cap: listMax,
    read: ({ after: [after_at, after_id], limit }) => workOrders.list(deps.sql, { status, work_type, after_at, after_id, limit }),
    bytesOf: ({ bytes }) => stateBytes + bytes,
  })
  return readOrders(deps, places)
}

export const handlePending: Handler<'listPendingForAgent', BrokerDeps> = async (deps, request) => {
  const { work_type = null } = request.query
  const places = await page(request, oldestFirst, {
    name: 'listPendingForAgent',
    cap: pendingMax,
    read: ({ after: [after_at, after_id], limit }) =>
      workOrders.listPending(deps.sql, { agent_id: request.params.agent_id, work_type, after_at, after_id, limit }),
    bytesOf: ({ bytes }) => stateBytes + bytes,
  })
  const orders = await readOrders(deps, places)
  return orders.filter(({ status }) => status === 'PENDING')
}

/** In the order of `places`. Leaves out orders that ended after the list was read. */
async function readOrders({ sql, seal }: Pick<BrokerDeps, 'sql' | 'seal'>, places: readonly { id: string }[]): Promise<WorkOrder[]> {
  const ids = places.map(({ id }) => id)
  const ordersById = new Map((await workOrders.among(sql, { ids })).map((row) => [row.id, row]))
  return ids.flatMap((id) => {
    const row = ordersById.get(id)
    return row === undefined ? [] : [openOrder(seal, row)]
  })
}

export const handleCreate: Handler<'createWorkOrder', BrokerDeps> = (deps, request) =>
  createWorkOrder(deps, { sent: request.body, actor: toActor(request) })

export const handleGet: Handler<'getWorkOrder', BrokerDeps> = async ({ sql, seal }, { params: { id } }) => {
  const order = await workOrders.get(sql, { id })
  if (order !== null) return openOrder(seal, order)
  const entry = await workOrderLog.get(sql, { id })
  if (entry === null) throw new ApiError('work_order_not_found', 'no work order has this id')
  return openFinishedOrder(seal, entry)
}

export const handleDelete: Handler<'deleteWorkOrder', BrokerDeps> = (deps, request) =>
  deleteWorkOrder(deps, { id: request.params.id, actor: toActor(request) })

export const handleClaim: Handler<'claimWorkOrder', BrokerDeps> = (deps, request) =>
  claimWorkOrder(deps, { id: request.params.id, agentId: request.body.agent_id, actor: toActor(request) })

export const handleComplete: Handler<'completeWorkOrder', BrokerDeps> = async (deps, request) => {
  const { success, message, retryable, attempt } = request.body
  const result = { success, message: message ?? null, retryable: retryable ?? true, attempt: attempt ?? null }
  const entry = await completeWorkOrder(deps, { id: request.params.id, result, actor: toActor(request) })
  if (entry !== null) return entry
  request.reply.setStatus(202)
  return { status: 'retry_scheduled' }
}

export const handleAppendOutput: Handler<'appendWorkOrderOutput', BrokerDeps> = (deps, { params, body, principal }) =>
  appendWorkOrderOutput(deps, { id: params.id, agentId: principal.id, piece: body })

export const handleGetOutput: Handler<'getWorkOrderOutput', BrokerDeps> = async ({ sql, seal }, { params: { id } }) => {
  const row = await workOrderContents.readOutput(sql, { id })
  if (row === null) throw new ApiError('work_order_not_found', 'no work order has this id')
  const output = openOutput(seal, id, row)
  return { text: output?.text ?? '', offset: output?.start ?? 0, finished: row.is_finished }
}

export const handleListLog: Handler<'listWorkOrderLog', BrokerDeps> = async ({ sql, seal }, request) => {
  const { work_type, success = null, agent_id } = request.query
  const places = await page(request, newestCompleted, {
    name: 'listWorkOrderLog',
    cap: listMax,
    read: ({ after: [after_at, after_id], limit }) => {
      const filter = { success, after_at, after_id, limit }
      if (agent_id !== undefined) return workOrderLog.listOfAgent(sql, { ...filter, agent_id, work_type: work_type ?? null })
      return work_type === undefined ? workOrderLog.list(sql, filter) : workOrderLog.listOfType(sql, { ...filter, work_type })
    },
    bytesOf: ({ bytes }) => stateBytes + bytes,
  })
  const ids = places.map(({ id }) => id)
  const entriesById = new Map((await workOrderLog.among(sql, { ids })).map((row) => [row.id, row]))
  return ids.flatMap((id) => {
    const row = entriesById.get(id)
    return row === undefined ? [] : [openLogEntry(seal, row)]
  })
}

export const handleGetLog: Handler<'getWorkOrderLog', BrokerDeps> = async ({ sql, seal }, { params: { id } }) => {
  const entry = await workOrderLog.get(sql, { id })
  if (entry === null) throw new ApiError('work_order_log_entry_not_found', 'no finished work order has this id')
  return openLogEntry(seal, entry)
}

export const handleRetry: Handler<'retryWorkOrder', BrokerDeps> = (deps, request) =>
  retryWorkOrder(deps, { id: request.params.id, actor: toActor(request) })
