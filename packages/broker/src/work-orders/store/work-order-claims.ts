// Claims of work orders and their ends. The attempt number is the token of a claim: it rises with each claim, and a result counts only under
// the attempt it was claimed with. A claim ends by the database's time.
import { WorkOrderLog } from '@brokkr/contract/work-orders/work-order.ts'
import { count, maybe, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import { touched } from '../../schema/sql-fragments.ts'
import { acceptingStates } from '../rules/work-order-states.ts'
import { isEligible } from './eligibility.ts'
import { SealedOrder, stateColumns } from './work-orders.ts'

const noClaim = 'claimed_by = null, claimed_at = null, claimed_until = null'

/** null: unknown, not pending, not targeted at the agent, or claimed first by another. The lock on the agent makes its deletion wait, which
 *  releases its claims. */
export const claim = maybe(
  'work_order_claims.claim',
  SealedOrder,
  (p: Slots<{ id: string; agent_id: string }>) => `
  with holder as materialized (select a.id from agents a where a.id = ${p.agent_id}::uuid and a.deleted_at is null for key share)
  update work_orders w set status = 'CLAIMED', claimed_by = holder.id, claimed_at = now(),
    claimed_until = now() + w.claim_timeout_seconds * interval '1 second', attempt = w.attempt + 1, ${touched}
  from holder
  where w.id = ${p.id}::uuid and w.status in (${acceptingStates('claim')}) and ${isEligible(`${p.agent_id}::uuid`)}
  returning ${stateColumns}, (select t.yaml_sealed from work_order_contents t where t.id = w.id) as yaml_sealed`,
)

const Claim = z.object({
  id: z.string(),
  work_type: z.string(),
  status: z.enum(['PENDING', 'CLAIMED', 'RETRY_PENDING']),
  claimed_by: z.string().nullable(),
  attempt: z.int(),
  retry_count: z.int(),
  max_retries: z.int(),
  backoff_seconds: z.int(),
})
export type Claim = z.output<typeof Claim>
const claimColumns = 'id, work_type, status, claimed_by, attempt, retry_count, max_retries, backoff_seconds'

/** Locks an open order until the transaction ends. */
export const lock = maybe(
  'work_order_claims.lock',
  Claim,
  (p: Slots<{ id: string }>) => `select ${claimColumns} from work_orders where id = ${p.id}::uuid for update`,
)

export const scheduleRetry = count(
  'work_order_claims.scheduleRetry',
  (p: Slots<{ id: string; retry_count: number; delay_seconds: number; error: string }>) => `
  update work_orders set status = 'RETRY_PENDING', retry_count = ${p.retry_count}::int, last_error = ${p.error}::text, last_error_at = now(),
    next_retry_after = now() + ${p.delay_seconds}::float8 * interval '1 second', ${noClaim}, ${touched}
  where id = ${p.id}::uuid and status in (${acceptingStates('fail')})`,
)

/** Moves orders to the log, with one result for all. */
export const finish = rows(
  'work_order_claims.finish',
  WorkOrderLog.omit({ yaml_content: true }),
  (p: Slots<{ ids: string[]; success: boolean; message: string | null }>) => `
  with finished as (delete from work_orders where id = any(${p.ids}::uuid[]) and status in (${acceptingStates('succeed')}) returning *)
  insert into work_order_log (id, work_type, claimed_by, claimed_at, success, retries_attempted, attempt, result_message, created_at)
  select id, work_type, claimed_by, claimed_at, ${p.success}::boolean, retry_count, attempt, ${p.message}::text, created_at from finished
  returning id, work_type, created_at, claimed_at, completed_at, claimed_by, success, retries_attempted, result_message`,
)

/** Claims whose time is over. Claims that another process handles are skipped. */
export const lockExpired = rows(
  'work_order_claims.lockExpired',
  Claim,
  (p: Slots<{ limit: number }>) => `
  select ${claimColumns} from work_orders where status = 'CLAIMED' and claimed_until < now()
  order by claimed_until limit ${p.limit}::int for update skip locked`,
)

/** Makes orders whose claim timed out claimable again. */
export const requeue = count(
  'work_order_claims.requeue',
  (p: Slots<{ ids: string[]; error: string }>) => `
  update work_orders set status = 'PENDING', retry_count = retry_count + 1, last_error = ${p.error}::text, last_error_at = now(), ${noClaim}, ${touched}
  where id = any(${p.ids}::uuid[]) and status in (${acceptingStates('expire')})`,
)

export const retryDue = count(
  'work_order_claims.retryDue',
  (p: Slots<{ limit: number }>) => `
  update work_orders set status = 'PENDING', next_retry_after = null, ${touched} where id in (
    select id from work_orders where status in (${acceptingStates('retryDue')}) and next_retry_after <= now()
    order by next_retry_after limit ${p.limit}::int for no key update skip locked)`,
)

/** Makes the claims of a deleted agent claimable again. */
export const releaseOfAgent = count(
  'work_order_claims.releaseOfAgent',
  (p: Slots<{ agent_id: string }>) => `
  update work_orders set status = 'PENDING', ${noClaim}, ${touched}
  where claimed_by = ${p.agent_id}::uuid and status in (${acceptingStates('release')})`,
)

/** Seconds until the next claim times out or the next retry is due; null if there is neither. */
export const nextDue = one(
  'work_order_claims.nextDue',
  z.object({ seconds: z.number().nullable() }),
  () => `
  select extract(epoch from least((select min(claimed_until) from work_orders where status = 'CLAIMED'),
    (select min(next_retry_after) from work_orders where status = 'RETRY_PENDING')) - now())::float8 as seconds`,
)
