// An agent tells what became of a delivery it had claimed. Only the holder is heard, and only while its lease lives.
import { ApiError } from '@brokkr/contract/error.ts'
import type { Actor } from '../domain/actor.ts'
import { meaningOf, nextState, type Tried } from '../domain/delivery-states.ts'
import * as deliveryLeases from '../store/delivery-leases.ts'
import type { Sql } from '../store/sql.ts'
import { cut, plain } from '../webhooks/deliver.ts'
import { giveUp, write } from '../webhooks/finish-delivery.ts'

export interface DeliveryResult {
  readonly id: string
  readonly agentId: string
  readonly success: boolean
  readonly statusCode: number | null
  readonly error: string | null
  readonly by: Actor
}
const errorCharsMax = 500

export async function reportDeliveryResult(deps: { sql: Sql; wakeFeed: () => void }, result: DeliveryResult) {
  const { id, agentId, by } = result
  const told = await deps.sql.begin(async (sql) => {
    const delivery = await deliveryLeases.lockHeld(sql, { id })
    if (delivery === null) throw new ApiError('delivery_not_found', 'no such delivery')
    const { acquired_by, acquired_until, is_held, attempts, max_retries, subscription_id } = delivery
    if (!is_held || acquired_by !== agentId || acquired_until === null)
      throw new ApiError('delivery_not_acquired_by_agent', 'this agent does not hold the delivery, or not any more')
    const tried = triedOf(result)
    const next = nextState(tried, { attempts, maxRetries: max_retries })
    const held = { id, subscription_id, acquired_until, holder: agentId, attempts, max_retries }
    const written = await (next.status === 'dead' ? giveUp(sql, { held, tried, next }, by) : write(sql, { held, tried, next }))
    if (written === null) throw new Error(`delivery ${id} changed under its lock`)
    return next.status === 'success' ? { status: next.status, delivery_id: id } : { status: next.status, delivery_id: id, ...written }
  })
  deps.wakeFeed()
  return told
}

function triedOf({ success, statusCode, error }: DeliveryResult): Tried {
  if (success) return { is: 'delivered', statusCode: statusCode ?? 200 }
  const text = cut(plain(error ?? (statusCode === null ? 'not delivered' : `HTTP ${statusCode}`)), errorCharsMax)
  const isLost = statusCode !== null && meaningOf(statusCode) === 'hopeless'
  return { is: isLost ? 'hopeless' : 'again', statusCode, error: text }
}
