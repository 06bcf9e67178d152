// Reports of a claimed work order: result and output.
import { ApiError, type ErrorCode } from '@brokkr/contract/errors.ts'
import type { WorkOrderLog } from '@brokkr/contract/work-orders/work-order.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import type { Seal } from '../../seal.ts'
import { enqueueDeliveries } from '../../webhooks/delivery/enqueue.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import { openLogEntry, openOutput, toOutputContext } from '../open-contents.ts'
import { appendOutput, type OutputPiece } from '../rules/append-output.ts'
import { type Completion, decideCompletion, refuseReport, type WorkOrderResult } from '../rules/decide-completion.ts'
import { workOrderFinished } from '../rules/work-order-events.ts'
import * as workOrderClaims from '../store/work-order-claims.ts'
import * as workOrderContents from '../store/work-order-contents.ts'
import * as workOrderLog from '../store/work-order-log.ts'

// Stores the result of a claimed work order: it moves to the log or waits for its retry. Only the holder of the current attempt, or an admin,
// may report.

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

const toRefusalText = (code: ErrorCode): string =>
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

// Appends a piece of output of a claimed work order. The last 256 KiB of the current attempt are stored sealed and stay with the log entry.

const pieceBytesMax = 64 * 1024

export async function appendWorkOrderOutput(
  deps: { sql: Sql; seal: Seal },
  { id, agentId, piece }: { id: string; agentId: string; piece: OutputPiece },
): Promise<void> {
  if (Buffer.byteLength(piece.text) > pieceBytesMax) {
    const message = `must have at most ${pieceBytesMax} bytes; send the output in several pieces`
    throw new ApiError('validation_failed', `text ${message}`, { details: { errors: [{ path: 'text', message }] } })
  }
  await deps.sql.begin(async (sql) => {
    const claim = await workOrderClaims.lock(sql, { id })
    const row = claim === null ? null : await workOrderContents.lockOutput(sql, { id })
    if (claim === null || row === null) throw new ApiError('work_order_not_found', 'no open work order has this id')
    const refusal = refuseReport(claim, { agentId, attempt: piece.attempt })
    if (refusal !== null) throw new ApiError(refusal, toRefusalText(refusal))
    const output = appendOutput(openOutput(deps.seal, id, row), piece)
    if (output === null) return
    const { attempt, start, end, text } = output
    await workOrderContents.putOutput(sql, { id, sealed: deps.seal.seal(toOutputContext(id), text), attempt, start, end })
  })
}
