// Ends claims that timed out, makes due retries pending and deletes old log entries. Runs in every process; row locks separate them. The next
// run is at the next timeout or retry if that is earlier than the interval, so that none waits for a tick.
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { recordAuditEntries } from '../audit/record.ts'
import { systemActor } from '../audit/rules.ts'
import { inBatches, type Task } from '../tasks/task.ts'
import { enqueueDeliveries } from '../webhooks/delivery/enqueue.ts'
import type { SubscriptionCache } from '../webhooks/subscriptions/subscription-cache.ts'
import { decideExpiry } from './rules/decide-completion.ts'
import { workOrderFinished } from './rules/work-order-events.ts'
import * as workOrderClaims from './store/work-order-claims.ts'
import * as workOrderLog from './store/work-order-log.ts'

type Deps = {
  readonly sql: Sql
  readonly clock: Clock
  readonly subscriptionCache: SubscriptionCache
  readonly wakeFeed: () => void
}
const limit = 500
const claimTimedOut = 'claim timed out'
/** A due row that another process holds locked must not make this one spin. */
const waitMsMin = 100
/** Claims and retries that end within a minute wake this task (migration 0016); later ones are found by a run before they end. */
const waitMsMax = 50_000

export function workOrderMaintenance(deps: Deps, settings: { everyMs: () => number; retentionDays: () => number }): Task {
  let nextDueMs = Number.POSITIVE_INFINITY
  return {
    name: 'work-order-maintenance',
    everyMs: () => Math.min(settings.everyMs(), waitMsMax, Math.max(nextDueMs, waitMsMin)),
    isEverywhere: true,
    run: async (signal) => {
      const all = (batch: () => Promise<number>) => inBatches(deps.clock, { pauseMs: 0, budgetMs: 5_000, signal }, batch)
      const counts = {
        expired: await all(() => expireClaims(deps)),
        retries: await all(() => workOrderClaims.retryDue(deps.sql, { limit })),
        deleted: await all(() => workOrderLog.removeOld(deps.sql, { days: settings.retentionDays(), limit })),
      }
      if (counts.expired + counts.retries > 0) deps.wakeFeed()
      const { seconds } = await workOrderClaims.nextDue(deps.sql, {})
      nextDueMs = seconds === null ? Number.POSITIVE_INFINITY : seconds * 1000
      return counts
    },
  }
}

/** One batch in one transaction; returns the number of claims that ended. */
async function expireClaims({ sql, subscriptionCache }: Deps): Promise<number> {
  return sql.begin(async (tx) => {
    const claims = await workOrderClaims.lockExpired(tx, { limit })
    if (claims.length === 0) return 0
    const { expire = [], expireLast = [] } = Object.groupBy(claims, decideExpiry)
    if (expire.length > 0) await workOrderClaims.requeue(tx, { ids: expire.map(({ id }) => id), error: claimTimedOut })
    const lastIds = expireLast.map(({ id }) => id)
    const entries = lastIds.length === 0 ? [] : await workOrderClaims.finish(tx, { ids: lastIds, success: false, message: claimTimedOut })
    await recordAuditEntries(tx, [
      ...claims.map((claim) => toEntry('workorder.expired', claim)),
      ...expireLast.map((claim) => toEntry('workorder.failed', claim)),
    ])
    await enqueueDeliveries(tx, subscriptionCache, entries.map(workOrderFinished))
    return claims.length
  })
}

const toEntry = (action: string, { id, work_type, claimed_by, attempt }: workOrderClaims.Claim) => ({
  actor: systemActor,
  action,
  resource: { type: 'work_order', id },
  details: { work_type, agent_id: claimed_by, attempt },
})
