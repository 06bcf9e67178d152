// Sends webhooks: brings back what nobody holds any more and what is due again, then has the sender take all it can. Woken by the feed;
// the tick finds what a lost wake-up left behind. Every process does it; no two take the same delivery.
import type { Clock } from '@brokkr/runtime/clock.ts'
import * as deliveryLeases from '../store/delivery-leases.ts'
import type { Sql } from '../store/sql.ts'
import type { Sender } from '../webhooks/sender.ts'
import { inBatches } from './in-batches.ts'
import type { Task } from './task.ts'

const limit = 1000
/** However often it is woken: leases and pauses are counted in seconds. */
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
