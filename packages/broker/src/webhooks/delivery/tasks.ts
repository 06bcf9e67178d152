// Tasks of webhook deliveries: delivery and cleanup.
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { inBatches, type Task } from '../../tasks/task.ts'
import type { Sender } from './sender.ts'
import * as deliveryLeases from './store/delivery-leases.ts'
import * as webhookDeliveries from './store/webhook-deliveries.ts'

// Releases expired leases and due retries, then lets the sender claim deliveries. Woken by the change feed; the tick covers lost wake-ups.
// Runs in every process; row locks keep two processes from claiming the same delivery.

const limit = 1000
/** Minimum time between releases; leases and retry delays have a resolution of seconds. */
const tidyMs = 1_000

type Deps = { readonly sql: Sql; readonly clock: Clock; readonly sender: Sender }

export function webhookDelivery(deps: Deps, settings: { everyMs: () => number }): Task {
  let tidiedMs = Number.NEGATIVE_INFINITY
  return {
    name: 'webhook-delivery',
    everyMs: settings.everyMs,
    isEverywhere: true,
    run: async (signal) => {
      const nowMs = deps.clock.monotonicMs()
      const isDue = nowMs - tidiedMs >= Math.min(tidyMs, settings.everyMs() / 2)
      if (isDue) tidiedMs = nowMs
      return { ...(isDue ? await bringBack(deps, signal) : {}), claimed: await deps.sender.fill() }
    },
  }
}

async function bringBack({ sql, clock }: Deps, signal: AbortSignal): Promise<{ lapsed: number; retries: number }> {
  const all = (batch: () => Promise<number>) => inBatches(clock, { pauseMs: 0, budgetMs: 5_000, signal }, batch)
  const lapsed = await all(() => deliveryLeases.releaseLapsed(sql, { limit }))
  return { lapsed, retries: await all(() => deliveryLeases.retryDue(sql, { limit })) }
}

// Deletes deliveries some days after they ended. Agent deliveries that no agent claimed for as long become dead, with the reason.

const cleanupRows = 1000

export const webhookCleanup = (
  deps: { sql: Sql; clock: Clock },
  settings: { everyMs: () => number; retentionDays: () => number },
): Task => ({
  name: 'webhook-cleanup',
  everyMs: settings.everyMs,
  run: async (signal) => {
    const all = (batch: () => Promise<number>) => inBatches(deps.clock, { pauseMs: 20, budgetMs: 60_000, signal }, batch)
    const age = { days: settings.retentionDays(), limit: cleanupRows }
    return {
      unclaimed: await all(() => webhookDeliveries.endUnclaimed(deps.sql, age)),
      deleted: await all(() => webhookDeliveries.removeEnded(deps.sql, age)),
    }
  },
})
