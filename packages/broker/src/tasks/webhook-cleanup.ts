// Deliveries that have ended are kept for some days, for people who look, and then go, a batch at a time.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Sql } from '../store/sql.ts'
import * as webhookDeliveries from '../store/webhook-deliveries.ts'
import { inBatches } from './in-batches.ts'
import type { Task } from './task.ts'

const limit = 1000

export const webhookCleanup = (
  deps: { sql: Sql; clock: Clock },
  settings: { everyMs: () => number; retentionDays: () => number },
): Task => ({
  name: 'webhook-cleanup',
  everyMs: settings.everyMs,
  run: async (signal) => {
    const batch = () => webhookDeliveries.removeEnded(deps.sql, { days: settings.retentionDays(), limit })
    return { deleted: await inBatches(deps.clock, { pauseMs: 20, budgetMs: 60_000, signal }, batch) }
  },
})
