// Work orders: create and cancel.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { WorkOrder } from '@brokkr/contract/work-orders/work-order.ts'
import type { Sql } from '@brokkr/postgres'
import * as agents from '../../agents/store/agents.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import type { Seal } from '../../seal.ts'
import { enqueueDeliveries } from '../../webhooks/delivery/enqueue.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import { toYamlContext } from '../open-contents.ts'
import { checkWorkOrder, keepLiveAgents, type SentWorkOrder, type WorkOrderRequest } from '../rules/new-work-order.ts'
import { workOrderCreated } from '../rules/work-order-events.ts'
import * as workOrderContents from '../store/work-order-contents.ts'
import * as workOrderLog from '../store/work-order-log.ts'
import * as workOrders from '../store/work-orders.ts'

// Creates a work order with its targeting in one transaction; triggers wake the matching agents. A finished order that failed can be created
// again with the same content and targeting.

export interface CreateDeps {
  readonly sql: Sql
  readonly seal: Seal
  readonly subscriptionCache: SubscriptionCache
  readonly wakeFeed: () => void
}

export async function createWorkOrder(deps: CreateDeps, { sent, actor }: { sent: SentWorkOrder; actor: Actor }): Promise<WorkOrder> {
  const request = checkWorkOrder(sent)
  const content = { workType: sent.work_type, yaml: sent.yaml_content }
  const order = await deps.sql.begin(async (sql) => {
    const liveIds = await holdLiveAgents(sql, request)
    if (liveIds.size < request.agent_ids.length) throw unknownAgent()
    return insertWorkOrder(sql, deps, { request, ...content, actor, details: {} })
  })
  deps.wakeFeed()
  return order
}

export async function retryWorkOrder(deps: CreateDeps, { id, actor }: { id: string; actor: Actor }): Promise<WorkOrder> {
  const order = await deps.sql.begin(async (sql) => {
    const entry = await workOrderLog.getRequest(sql, { id })
    if (entry === null) throw new ApiError('work_order_log_entry_not_found', 'no finished work order has this id')
    if (entry.success) throw new ApiError('work_order_succeeded', 'the work order succeeded; create a new one to run it again')
    const request = entry.request as WorkOrderRequest
    const remaining = keepLiveAgents(request, await holdLiveAgents(sql, request))
    if (remaining === null) throw unknownAgent()
    const yaml = deps.seal.open(toYamlContext(id), entry.yaml_sealed)
    return insertWorkOrder(sql, deps, { request: remaining, workType: entry.work_type, yaml, actor, details: { retry_of: id } })
  })
  deps.wakeFeed()
  return order
}

async function holdLiveAgents(sql: Sql, { agent_ids }: WorkOrderRequest): Promise<ReadonlySet<string>> {
  if (agent_ids.length === 0) return new Set()
  return new Set((await agents.holdLive(sql, { ids: agent_ids })).map(({ id }) => id))
}

const unknownAgent = (): ApiError =>
  new ApiError('foreign_key_violation', 'an agent named by `targeting` does not exist', {
    details: { constraint: 'work_order_targets_agent_id_fkey' },
  })

interface NewOrder {
  readonly request: WorkOrderRequest
  readonly workType: string
  readonly yaml: string
  readonly actor: Actor
  readonly details: Readonly<Record<string, unknown>>
}

/** In the caller's transaction. */
export async function insertWorkOrder(sql: Sql, { seal, subscriptionCache }: CreateDeps, input: NewOrder): Promise<WorkOrder> {
  const { request, workType, yaml, actor } = input
  const { match, max_retries, backoff_seconds, claim_timeout_seconds, agent_ids, labels } = request
  const id = uuid7()
  await workOrderContents.insert(sql, {
    id,
    yaml_sealed: seal.seal(toYamlContext(id), yaml),
    yaml_bytes: Buffer.byteLength(yaml),
    request: JSON.stringify(request),
  })
  const row = await workOrders.insert(sql, { id, work_type: workType, match, max_retries, backoff_seconds, claim_timeout_seconds })
  if (agent_ids.length > 0) await workOrders.addTargets(sql, { id, agent_ids })
  if (labels.length > 0) await workOrders.addLabels(sql, { id, labels })
  const annotations = Object.entries(request.annotations)
  const [keys, values] = [annotations.map(([key]) => key), annotations.map(([, value]) => value)]
  if (annotations.length > 0) await workOrders.addAnnotations(sql, { id, keys, values })
  await recordAuditEntry(sql, {
    actor,
    action: 'workorder.created',
    resource: { type: 'work_order', id },
    details: { work_type: workType, ...input.details },
  })
  await enqueueDeliveries(sql, subscriptionCache, [workOrderCreated(row)])
  return { ...row, yaml_content: yaml }
}

/** Cancels an open work order. An agent that executes it learns it when it reports the result. */
export async function deleteWorkOrder(
  deps: { sql: Sql; wakeFeed: () => void },
  { id, actor }: { id: string; actor: Actor },
): Promise<void> {
  await deps.sql.begin(async (sql) => {
    if ((await workOrders.remove(sql, { id })) === 0)
      throw new ApiError('work_order_not_found', 'no open work order has this id; finished ones stay in the log')
    await recordAuditEntry(sql, { actor, action: 'workorder.deleted', resource: { type: 'work_order', id } })
  })
  deps.wakeFeed()
}
