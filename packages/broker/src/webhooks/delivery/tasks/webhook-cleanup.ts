// Deletes deliveries some days after they ended. Agent deliveries that no agent claimed for as long become dead, with the reason.
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { inBatches } from '../../../tasks/in-batches.ts'
import type { Task } from '../../../tasks/task.ts'
import * as webhookDeliveries from '../store/webhook-deliveries.ts'

const limit = 1000

export const webhookCleanup = (
  deps: { sql: Sql; clock: Clock },
  settings: { everyMs: () => number; retentionDays: () => number },
): Task => ({
  name: 'webhook-cleanup',
  everyMs: settings.everyMs,
  run: async (signal) => {
    const all = (batch: () => Promise<number>) => inBatches(deps.clock, { pauseMs: 20, budgetMs: 60_000, signal }, batch)
    const age = { days: settings.retentionDays(), limit }
    return {
      unclaimed: await all(() => webhookDeliveries.endUnclaimed(deps.sql, age)),
      deleted: await all(() => webhookDeliveries.removeEnded(deps.sql, age)),
    }
  },
})
