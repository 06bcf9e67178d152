// Small things that have ended: stored answers, sessions, keys, acknowledgements and pairs that nobody needs any more. Each is
// a bounded statement, repeated until nothing is left.
import type { Clock } from '@brokkr/runtime/clock.ts'
import * as adminRole from '../store/admin-role.ts'
import * as agentEvents from '../store/agent-events.ts'
import * as agentInvites from '../store/agent-invites.ts'
import * as agentSessions from '../store/agent-sessions.ts'
import * as agentStackStatus from '../store/agent-stack-status.ts'
import * as consoleSessions from '../store/console-sessions.ts'
import * as idempotencyKeys from '../store/idempotency-keys.ts'
import type { Sql } from '../store/sql.ts'
import { inBatches } from './in-batches.ts'
import type { Task } from './task.ts'

export interface HousekeepingSettings {
  readonly everyMs: () => number
  /** Of the change log; a removed pair is kept twice as long. */
  readonly retentionHours: () => number
  /** 0: events are kept for ever. */
  readonly eventDays: () => number
}
const limit = 1000
const ackDays = 30
const expiredKeyDays = 7
/** Whoever made one may look for a while what became of it. */
const endedInviteDays = 7

export const housekeeping = (deps: { sql: Sql; clock: Clock; wakeFeed: () => void }, settings: HousekeepingSettings): Task => ({
  name: 'housekeeping',
  everyMs: settings.everyMs,
  run: async (signal) => {
    const { sql } = deps
    const all = (batch: () => Promise<number>) => inBatches(deps.clock, { pauseMs: 20, budgetMs: 30_000, signal }, batch)
    const days = settings.eventDays()
    const counts = {
      answers: await all(() => idempotencyKeys.removeExpired(sql, { limit })),
      sessions: await all(() => consoleSessions.removeEnded(sql, { limit })),
      invites: await all(() => agentInvites.removeEnded(sql, { days: endedInviteDays, limit })),
      connections: await all(() => agentSessions.removeStale(sql, { limit })),
      keys: await adminRole.removeExpired(sql, { days: expiredKeyDays }),
      acknowledgements: await all(() => agentEvents.removeOldAcks(sql, { days: ackDays, limit })),
      removed_pairs: await all(() => agentStackStatus.removeRemoved(sql, { hours: 2 * settings.retentionHours(), limit })),
      events: days === 0 ? 0 : await all(() => agentEvents.removeOld(sql, { days, limit })),
    }
    if (counts.sessions + counts.keys > 0) deps.wakeFeed()
    return counts
  },
})
