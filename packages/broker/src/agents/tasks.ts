// Marks agents as disconnected that were silent for too long by database time. Every process runs it; row locks give each silent agent
// to one process, which also enqueues the webhook event.
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { inBatches, type Task } from '../tasks/task.ts'
import { enqueueDeliveries } from '../webhooks/delivery/enqueue.ts'
import { agentDisconnected } from '../webhooks/delivery/rules/webhook-events.ts'
import type { SubscriptionCache } from '../webhooks/subscriptions/subscription-cache.ts'
import * as agents from './store/agents.ts'

export const agentLiveness = (
  deps: { sql: Sql; clock: Clock; subscriptionCache: SubscriptionCache; wakeFeed: () => void },
  settings: { everyMs: () => number; silentSeconds: () => number },
): Task => ({
  name: 'agent-liveness',
  everyMs: settings.everyMs,
  isEverywhere: true,
  run: async (signal) => {
    const batch = () =>
      deps.sql.begin(async (sql) => {
        const silent = await agents.markSilent(sql, { silent_seconds: settings.silentSeconds(), limit: 500 })
        await enqueueDeliveries(sql, deps.subscriptionCache, silent.map(agentDisconnected))
        return silent.length
      })
    const disconnected = await inBatches(deps.clock, { pauseMs: 0, budgetMs: 5_000, signal }, batch)
    if (disconnected > 0) deps.wakeFeed()
    return { disconnected }
  },
})
