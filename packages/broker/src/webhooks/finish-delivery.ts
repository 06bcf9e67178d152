// Writes how one try ended, if the lease it was made under still holds: the next state, and for what is given up an audit row, together.
import { recordDeed } from '../audit.ts'
import { type Actor, systemActor } from '../domain/actor.ts'
import { type NextState, nextState, type Tried } from '../domain/delivery-states.ts'
import * as deliveryLeases from '../store/delivery-leases.ts'
import type { Sql } from '../store/sql.ts'

export interface HeldDelivery {
  readonly id: string
  readonly subscription_id: string
  readonly event_type?: string
  readonly acquired_until: string
  /** The agent that sent it; null: a broker. */
  readonly holder: string | null
  readonly attempts: number
  readonly max_retries: number
}

/** Null: the lease was somebody else's by then. */
export async function finishDelivery(sql: Sql, held: HeldDelivery, tried: Tried): Promise<NextState['status'] | null> {
  const next = nextState(tried, { attempts: held.attempts, maxRetries: held.max_retries })
  if (next.status !== 'dead') return (await write(sql, { held, tried, next })) === null ? null : next.status
  return sql.begin(async (tx) => ((await giveUp(tx, { held, tried, next })) === null ? null : next.status))
}

interface Finishing {
  readonly held: HeldDelivery
  readonly tried: Tried
  readonly next: NextState
}

/** In the caller's transaction. */
export async function giveUp(tx: Sql, { held, tried, next }: Finishing, by: Actor = systemActor) {
  const written = await write(tx, { held, tried, next })
  if (written === null) return null
  const details = { delivery_id: held.id, attempts: written.attempts, status_code: tried.statusCode }
  await recordDeed(tx, { by, action: 'webhook.delivery_failed', on: { type: 'webhook_subscription', id: held.subscription_id }, details })
  return written
}

export const write = (sql: Sql, { held, tried, next }: Finishing) =>
  deliveryLeases.finish(sql, {
    id: held.id,
    holder: held.holder,
    acquired_until: held.acquired_until,
    status: next.status,
    delay_seconds: next.delaySeconds,
    status_code: tried.statusCode,
    error: tried.is === 'delivered' ? null : tried.error,
  })
