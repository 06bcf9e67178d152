// Deletes old rows of the change log. The floor is raised and committed first, so that an older cursor gets a snapshot instead of a log with
// gaps. A long transaction keeps the floor low, so that its rows are not lost.
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { inBatches, type Task } from '../tasks/task.ts'
import * as changeLog from './store/change-log.ts'
import * as feedState from './store/feed-state.ts'
import * as feedMarks from './store/watermarks.ts'

const [batchRows, pauseMs, budgetMs] = [10_000, 100, 50_000]

export const changeLogCleanup = (
  deps: { sql: Sql; clock: Clock },
  settings: { everyMs: () => number; retentionHours: () => number },
): Task => ({
  name: 'change-log-cleanup',
  everyMs: settings.everyMs,
  run: async (signal) => {
    const retention_hours = settings.retentionHours()
    await feedMarks.take(deps.sql, {})
    const { low_xid: floor } = await feedMarks.lowXidBefore(deps.sql, { retention_hours })
    if (floor === null) return { deleted: 0 }
    await feedState.raiseFloor(deps.sql, { floor })
    const batch = () => changeLog.deleteBelow(deps.sql, { floor, limit: batchRows })
    const deleted = await inBatches(deps.clock, { pauseMs, budgetMs, signal }, batch)
    return { deleted, marks: await feedMarks.removeOld(deps.sql, { retention_hours }) }
  },
})
