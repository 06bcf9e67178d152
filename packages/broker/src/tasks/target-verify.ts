// Recounts which agent should have which stack and compares it with the pairs that are kept. There must be no difference; one
// that is found is mended, and somebody must look how it came to be.
import type { Log } from '@brokkr/runtime/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import { lockTargeting } from '../actions/retarget.ts'
import * as agentTargets from '../store/agent-targets.ts'
import type { Sql } from '../store/sql.ts'
import * as taskLeases from '../store/task-leases.ts'
import type { Task } from './task.ts'

const everything = { agent_id: null, stack_id: null }

export const targetVerify = (
  deps: { sql: Sql; log: Log; metrics: Metrics; wakeFeed: () => void },
  settings: { everyMs: () => number },
): Task => {
  const drifted = deps.metrics.counter('brokkr_targeting_drift_total', 'Pairs of agent and stack that a recount found wrong')
  return {
    name: 'target-verify',
    everyMs: settings.everyMs,
    run: async () => {
      // Looked at without the lock, which every change of a label needs.
      const found = await deps.sql.begin(async (sql) => {
        await taskLeases.allowTaskTime(sql, {})
        return agentTargets.drift(sql, everything)
      })
      if (found.differences === 0) return found
      drifted.inc(found.differences)
      deps.log.error('targeting differs from a recount; it is mended now', { differences: found.differences, pairs: found.pairs })
      await mend(deps.sql)
      deps.wakeFeed()
      return found
    },
  }
}

async function mend(sql: Sql): Promise<void> {
  await sql.begin(async (tx) => {
    await taskLeases.allowTaskTime(tx, {})
    await lockTargeting(tx)
    await agentTargets.recomputeEnded(tx, everything)
    await agentTargets.recomputeBegun(tx, everything)
  })
}
