// Ends diagnostic requests whose time is over and deletes ended ones with their results.
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { inBatches, type Task } from '../tasks/task.ts'
import * as diagnostics from './store.ts'

const limit = 1000

export const diagnosticCleanup = (
  deps: { sql: Sql; clock: Clock; wakeFeed: () => void },
  settings: { everyMs: () => number; maxAgeHours: () => number },
): Task => ({
  name: 'diagnostic-cleanup',
  everyMs: settings.everyMs,
  run: async (signal) => {
    const all = (batch: () => Promise<number>) => inBatches(deps.clock, { pauseMs: 20, budgetMs: 30_000, signal }, batch)
    const expired = await all(() => diagnostics.expire(deps.sql, { limit }))
    if (expired > 0) deps.wakeFeed()
    return { expired, deleted: await all(() => diagnostics.removeEnded(deps.sql, { hours: settings.maxAgeHours(), limit })) }
  },
})
