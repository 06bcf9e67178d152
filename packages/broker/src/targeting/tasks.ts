// Compares the stored targets with those that labels, annotations and registrations give. A difference indicates a bug: it is logged,
// counted and corrected.
import type { Sql } from '@brokkr/postgres'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import * as taskLeases from '../tasks/store.ts'
import type { Task } from '../tasks/task.ts'
import { changeAgent, lockAgent } from './actions.ts'
import * as agentTargets from './store/agent-targets.ts'

const agentsMax = 10_000

export const targetVerify = (
  deps: { sql: Sql; log: Log; metrics: Metrics; wakeFeed: () => void },
  settings: { everyMs: () => number },
): Task => {
  const driftCounter = deps.metrics.counter('brokkr_targeting_drift_total', 'Number of stored targets that differed from a recount')
  return {
    name: 'target-verify',
    everyMs: settings.everyMs,
    run: async () => {
      const result = await deps.sql.begin(async (sql) => {
        await taskLeases.allowTaskTime(sql, {})
        return agentTargets.drift(sql, {})
      })
      if (result.differences === 0) return result
      driftCounter.inc(result.differences)
      deps.log.error('targets differ from recount, correcting', { differences: result.differences, targets: result.pairs })
      await correctTargets(deps.sql)
      deps.wakeFeed()
      return result
    },
  }
}

/** One transaction per agent, like a change of its labels. */
async function correctTargets(sql: Sql): Promise<void> {
  const agents = await sql.begin(async (tx) => {
    await taskLeases.allowTaskTime(tx, {})
    return agentTargets.agentsWithDrift(tx, { limit: agentsMax })
  })
  for (const { agent_id } of agents)
    await sql.begin(async (tx) => {
      await lockAgent(tx, agent_id)
      await changeAgent(tx, agent_id, [], async () => undefined)
    })
}
