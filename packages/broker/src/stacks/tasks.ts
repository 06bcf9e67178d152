// Compares the stored counts of stacks with a recount from the targets. A difference indicates a bug: it is logged, counted and corrected.
import type { Sql } from '@brokkr/postgres'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import * as taskLeases from '../tasks/store.ts'
import type { Task } from '../tasks/task.ts'
import * as stackSummary from './store/stack-summary.ts'

const shownMax = 1000

export const summaryVerify = (deps: { sql: Sql; log: Log; metrics: Metrics }, settings: { everyMs: () => number }): Task => {
  const driftCounter = deps.metrics.counter(
    'brokkr_stack_summary_drift_total',
    'Number of stored stack counts that differed from a recount',
  )
  return {
    name: 'summary-verify',
    everyMs: settings.everyMs,
    run: async () => {
      // One statement reads one snapshot, so the comparison needs no lock.
      const differences = await deps.sql.begin(async (sql) => {
        await taskLeases.allowTaskTime(sql, {})
        return stackSummary.differences(sql, { limit: shownMax })
      })
      if (differences.length === 0) return { differences: 0 }
      driftCounter.inc(differences.length)
      deps.log.error('stack counts differ from recount, correcting', {
        differences: differences.length,
        stack_id: differences[0]!.stack_id,
      })
      await correctCounts(deps.sql)
      return { differences: differences.length }
    },
  }
}

async function correctCounts(sql: Sql): Promise<void> {
  await sql.begin(async (tx) => {
    await taskLeases.allowTaskTime(tx, {})
    await stackSummary.lockWriters(tx, {})
    await stackSummary.mend(tx, {})
  })
}
