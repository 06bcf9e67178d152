// Agents that were not heard of for too long are disconnected, by database time. Every process looks; each silent agent is
// taken by one of them, which also tells of it.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { agentDisconnected } from '../domain/webhook-events.ts'
import * as agents from '../store/agents.ts'
import type { Sql } from '../store/sql.ts'
import { enqueue } from '../webhooks/enqueue.ts'
import type { Subscriptions } from '../webhooks/subscriptions.ts'
import { inBatches } from './in-batches.ts'
import type { Task } from './task.ts'

export const agentLiveness = (
  deps: { sql: Sql; clock: Clock; hooks: Subscriptions; wakeFeed: () => void },
  settings: { everyMs: () => number; silentSeconds: () => number },
): Task => ({
  name: 'agent-liveness',
  everyMs: settings.everyMs,
  isEverywhere: true,
  run: async (signal) => {
    const batch = () =>
      deps.sql.begin(async (sql) => {
        const silent = await agents.markSilent(sql, { silent_seconds: settings.silentSeconds(), limit: 500 })
        await enqueue(sql, deps.hooks, silent.map(agentDisconnected))
        return silent.length
      })
    const disconnected = await inBatches(deps.clock, { pauseMs: 0, budgetMs: 5_000, signal }, batch)
    if (disconnected > 0) deps.wakeFeed()
    return { disconnected }
  },
})
