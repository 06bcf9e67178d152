// Stores the result of a delivery that an agent claimed. Accepts it only from the lease holder while the lease is valid.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import type { Actor } from '../../../audit/rules.ts'
import { toPlainText, truncate } from '../deliver.ts'
import { giveUp, write } from '../finish-delivery.ts'
import { type AttemptResult, classifyStatusCode, nextState } from '../rules/delivery-states.ts'
import * as deliveryLeases from '../store/delivery-leases.ts'

export interface DeliveryResult {
  readonly id: string
  readonly agentId: string
  readonly success: boolean
  readonly statusCode: number | null
  readonly error: string | null
  readonly actor: Actor
}
const errorCharsMax = 500

export async function reportDeliveryResult(deps: { sql: Sql; wakeFeed: () => void }, result: DeliveryResult) {
  const { id, agentId, actor } = result
  const response = await deps.sql.begin(async (sql) => {
    const delivery = await deliveryLeases.lockForResult(sql, { id })
    if (delivery === null) throw new ApiError('delivery_not_found', 'no such delivery')
    const { acquired_by, acquired_until, is_held, attempts, max_retries, subscription_id } = delivery
    if (!is_held || acquired_by !== agentId || acquired_until === null)
      throw new ApiError('delivery_not_acquired_by_agent', 'this agent does not hold the lease of the delivery: claim deliveries again')
    const attempt = toAttemptResult(result)
    const next = nextState(attempt, { attempts, maxRetries: max_retries })
    const leasedDelivery = { id, subscription_id, acquired_until, holder: agentId, attempts, max_retries }
    const finishing = { delivery: leasedDelivery, attempt, next }
    const row = await (next.status === 'dead' ? giveUp(sql, finishing, actor) : write(sql, finishing))
    if (row === null) throw new Error(`delivery ${id} changed under its lock`)
    return next.status === 'success' ? { status: next.status, delivery_id: id } : { status: next.status, delivery_id: id, ...row }
  })
  deps.wakeFeed()
  return response
}

function toAttemptResult({ success, statusCode, error }: DeliveryResult): AttemptResult {
  if (success) return { is: 'delivered', statusCode: statusCode ?? 200 }
  const text = truncate(toPlainText(error ?? (statusCode === null ? 'not delivered' : `HTTP ${statusCode}`)), errorCharsMax)
  const isPermanent = statusCode !== null && classifyStatusCode(statusCode) === 'permanentFailure'
  return { is: isPermanent ? 'permanentFailure' : 'retry', statusCode, error: text }
}
