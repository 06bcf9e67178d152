// Stores the result of a claimed work order: it moves to the log or waits for its retry. Only the holder of the current attempt, or an admin,
// may report.
import { ApiError, type ErrorCode } from '@brokkr/contract/errors.ts'
import type { WorkOrderLog } from '@brokkr/contract/work-orders/work-order.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import type { Seal } from '../../seal.ts'
import { enqueueDeliveries } from '../../webhooks/delivery/enqueue.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import { openLogEntry } from '../open-contents.ts'
import { type Completion, decideCompletion, type WorkOrderResult } from '../rules/decide-completion.ts'
import { workOrderFinished } from '../rules/work-order-events.ts'
import * as workOrderClaims from '../store/work-order-claims.ts'
import * as workOrderLog from '../store/work-order-log.ts'

interface CompleteDeps {
  readonly sql: Sql
  readonly seal: Seal
  readonly subscriptionCache: SubscriptionCache
  readonly wakeFeed: () => void
}
export interface CompleteInput {
  readonly id: string
  readonly result: WorkOrderResult
  readonly actor: Actor
}

/** null: a retry is scheduled. */
export async function completeWorkOrder(deps: CompleteDeps, { id, result, actor }: CompleteInput): Promise<WorkOrderLog | null> {
  const entry = await deps.sql.begin(async (sql) => {
    const claim = await workOrderClaims.lock(sql, { id })
    if (claim === null) throw new ApiError('work_order_not_found', 'no open work order has this id')
    const completion = decideCompletion(claim, result, actor.kind === 'agent' ? actor.id : null)
    if (completion.do === 'refuse') throw new ApiError(completion.code, toRefusalText(completion.code))
    return completion.do === 'retry'
      ? scheduleRetry(sql, { claim, completion, actor })
      : logResult(sql, deps.subscriptionCache, { claim, completion, actor })
  })
  deps.wakeFeed()
  return entry === null ? null : openLogEntry(deps.seal, entry)
}

export const toRefusalText = (code: ErrorCode): string =>
  code === 'work_order_attempt_stale'
    ? 'the work order was claimed again after this attempt; the result of the later attempt counts'
    : 'this agent does not hold the claim of the work order'

interface Step<Do extends Completion['do']> {
  readonly claim: workOrderClaims.Claim
  readonly completion: Extract<Completion, { do: Do }>
  readonly actor: Actor
}

async function scheduleRetry(sql: Sql, { claim, completion, actor }: Step<'retry'>): Promise<null> {
  const { id, work_type, attempt, claimed_by: agent_id } = claim
  const { retryCount: retry_count, delaySeconds: delay_seconds, message: error } = completion
  await workOrderClaims.scheduleRetry(sql, { id, retry_count, delay_seconds, error })
  const details = { work_type, agent_id, attempt, retry_count, delay_seconds }
  await recordAuditEntry(sql, { actor, action: 'workorder.retry', resource: { type: 'work_order', id }, details })
  return null
}

async function logResult(
  sql: Sql,
  subscriptionCache: SubscriptionCache,
  { claim, completion, actor }: Step<'log'>,
): Promise<workOrderLog.SealedLogEntry> {
  const { id, work_type, attempt, claimed_by: agent_id } = claim
  const { success, message } = completion
  const [entry] = await workOrderClaims.finish(sql, { ids: [id], success, message })
  const row = entry === undefined ? null : await workOrderLog.get(sql, { id })
  if (entry === undefined || row === null) throw new Error(`work order ${id} changed under its lock`)
  const action = success ? 'workorder.completed' : 'workorder.failed'
  await recordAuditEntry(sql, { actor, action, resource: { type: 'work_order', id }, details: { work_type, agent_id, attempt } })
  await enqueueDeliveries(sql, subscriptionCache, [workOrderFinished(entry)])
  return row
}
