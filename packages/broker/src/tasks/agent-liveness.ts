// Agents that were not heard of for too long are disconnected, by database time. Every process looks; each silent agent is
// taken by one of them.
import type { Clock } from '@brokkr/runtime/clock.ts'
import * as agents from '../store/agents.ts'
import type { Sql } from '../store/sql.ts'
import { inBatches } from './in-batches.ts'
import type { Task } from './task.ts'

export const agentLiveness = (
  deps: { sql: Sql; clock: Clock },
  settings: { everyMs: () => number; silentSeconds: () => number },
): Task => ({
  name: 'agent-liveness',
  everyMs: settings.everyMs,
  isEverywhere: true,
  run: async (signal) => {
    const batch = async () => (await agents.markSilent(deps.sql, { silent_seconds: settings.silentSeconds(), limit: 500 })).length
    return { disconnected: await inBatches(deps.clock, { pauseMs: 0, budgetMs: 5_000, signal }, batch) }
  },
})
