// Writes the result of one attempt if its lease is still valid: the next state and, for a dead delivery, an audit entry in one transaction.
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import { type Actor, systemActor } from '../../audit/rules.ts'
import { type AttemptResult, type NextState, nextState } from './rules/delivery-states.ts'
import * as deliveryLeases from './store/delivery-leases.ts'

export interface LeasedDelivery {
  readonly id: string
  readonly subscription_id: string
  readonly event_type?: string
  readonly acquired_until: string
  /** The agent that sent it; null for a broker. */
  readonly holder: string | null
  readonly attempts: number
  readonly max_retries: number
}

/** null if another sender holds the lease now. */
export async function finishDelivery(sql: Sql, delivery: LeasedDelivery, attempt: AttemptResult): Promise<NextState['status'] | null> {
  const next = nextState(attempt, { attempts: delivery.attempts, maxRetries: delivery.max_retries })
  if (next.status !== 'dead') return (await write(sql, { delivery, attempt, next })) === null ? null : next.status
  return sql.begin(async (tx) => ((await giveUp(tx, { delivery, attempt, next })) === null ? null : next.status))
}

interface Finishing {
  readonly delivery: LeasedDelivery
  readonly attempt: AttemptResult
  readonly next: NextState
}

/** Runs in the caller's transaction. */
export async function giveUp(tx: Sql, { delivery, attempt, next }: Finishing, actor: Actor = systemActor) {
  const written = await write(tx, { delivery, attempt, next })
  if (written === null) return null
  const details = { delivery_id: delivery.id, attempts: written.attempts, status_code: attempt.statusCode }
  await recordAuditEntry(tx, {
    actor,
    action: 'webhook.delivery_failed',
    resource: { type: 'webhook_subscription', id: delivery.subscription_id },
    details,
  })
  return written
}

export const write = (sql: Sql, { delivery, attempt, next }: Finishing) =>
  deliveryLeases.finish(sql, {
    id: delivery.id,
    holder: delivery.holder,
    acquired_until: delivery.acquired_until,
    status: next.status,
    delay_seconds: next.delaySeconds,
    status_code: attempt.statusCode,
    error: attempt.is === 'delivered' ? null : attempt.error,
  })
