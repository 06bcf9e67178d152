// Sends webhooks: brings back what nobody holds any more and what is due again, then has the sender take all it can. Woken by the feed;
// the tick finds what a lost wake-up left behind. Every process does it; no two take the same delivery.
import type { Clock } from '@brokkr/runtime/clock.ts'
import * as deliveryLeases from '../store/delivery-leases.ts'
import type { Sql } from '../store/sql.ts'
import type { Sender } from '../webhooks/sender.ts'
import { inBatches } from './in-batches.ts'
import type { Task } from './task.ts'

const limit = 1000

export const webhookDelivery = (deps: { sql: Sql; clock: Clock; sender: Sender }, settings: { everyMs: () => number }): Task => ({
  name: 'webhook-delivery',
  everyMs: settings.everyMs,
  isEverywhere: true,
  run: async (signal) => {
    const { sql } = deps
    const all = (batch: () => Promise<number>) => inBatches(deps.clock, { pauseMs: 0, budgetMs: 5_000, signal }, batch)
    const lapsed = await all(() => deliveryLeases.releaseLapsed(sql, { limit }))
    const retries = await all(() => deliveryLeases.retryDue(sql, { limit }))
    return { lapsed, retries, claimed: await deps.sender.fill() }
  },
})
