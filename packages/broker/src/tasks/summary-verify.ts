// Recounts the kept counts of stacks from the pairs themselves. There must be no difference; one that is found is mended, and
// somebody must look how it came to be.
import type { Log } from '@brokkr/runtime/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import { lockTargeting } from '../actions/retarget.ts'
import type { Sql } from '../store/sql.ts'
import * as stackSummary from '../store/stack-summary.ts'
import * as taskLeases from '../store/task-leases.ts'
import type { Task } from './task.ts'

const shownMax = 1000

export const summaryVerify = (deps: { sql: Sql; log: Log; metrics: Metrics }, settings: { everyMs: () => number }): Task => {
  const drifted = deps.metrics.counter('brokkr_stack_summary_drift_total', 'Kept counts of stacks that a recount found wrong')
  return {
    name: 'summary-verify',
    everyMs: settings.everyMs,
    run: async () => {
      // One statement sees one instant, so nothing has to be locked to look.
      const found = await deps.sql.begin(async (sql) => {
        await taskLeases.allowTaskTime(sql, {})
        return stackSummary.differences(sql, { limit: shownMax })
      })
      if (found.length === 0) return { differences: 0 }
      drifted.inc(found.length)
      deps.log.error('kept counts differ from a recount; they are mended now', { differences: found.length, stack_id: found[0]!.stack_id })
      await mend(deps.sql)
      return { differences: found.length }
    },
  }
}

async function mend(sql: Sql): Promise<void> {
  await sql.begin(async (tx) => {
    await taskLeases.allowTaskTime(tx, {})
    await lockTargeting(tx)
    await stackSummary.lockWriters(tx, {})
    await stackSummary.mend(tx, {})
  })
}
