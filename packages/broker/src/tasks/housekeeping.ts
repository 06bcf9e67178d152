// Deletes ended rows: stored responses, sessions, sign-in links, PAKs, acknowledgments, approvals, plans and removed targets. Each is a
// bounded statement, repeated until no row is left.
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import * as adminRole from '../admin/store/admin-role.ts'
import * as agentSessions from '../agents/store/agent-sessions.ts'
import * as consoleSessions from '../auth/store/console-sessions.ts'
import * as loginTokens from '../auth/store/login-tokens.ts'
import * as flows from '../flows/store/flows.ts'
import * as deploymentHealth from '../health/store.ts'
import * as idempotencyKeys from '../http/store/idempotency-keys.ts'
import * as agentStackInventory from '../inventory/store.ts'
import * as agentInvites from '../invites/store.ts'
import * as plans from '../plans/store/plans.ts'
import * as agentEvents from '../reports/store/agent-events.ts'
import * as agentStackStatus from '../reports/store/agent-stack-status.ts'
import * as pruneApprovals from '../reports/store/prune-approvals.ts'
import { inBatches, type Task } from './task.ts'

export interface HousekeepingSettings {
  readonly everyMs: () => number
  /** Retention of the change log; removed targets are kept twice as long. */
  readonly retentionHours: () => number
  /** 0 keeps events forever. */
  readonly eventDays: () => number
}
const limit = 1000
const ackDays = 30
const healthDays = 30
const approvalDays = 7
const expiredPakDays = 7
const expiredPlanHours = 24
/** Ended invites stay visible to admins for some days. */
const endedInviteDays = 7

export const housekeeping = (deps: { sql: Sql; clock: Clock; wakeFeed: () => void }, settings: HousekeepingSettings): Task => ({
  name: 'housekeeping',
  everyMs: settings.everyMs,
  run: async (signal) => {
    const { sql } = deps
    const deleteAll = (batch: () => Promise<number>) => inBatches(deps.clock, { pauseMs: 20, budgetMs: 30_000, signal }, batch)
    const days = settings.eventDays()
    const counts = {
      answers: await deleteAll(() => idempotencyKeys.removeExpired(sql, { limit })),
      sessions: await deleteAll(() => consoleSessions.removeEnded(sql, { limit })),
      links: await deleteAll(() => loginTokens.removeEnded(sql, { limit })),
      invites: await deleteAll(() => agentInvites.removeEnded(sql, { days: endedInviteDays, limit })),
      connections: await deleteAll(() => agentSessions.removeStale(sql, { limit })),
      keys: await adminRole.removeExpired(sql, { days: expiredPakDays }),
      acknowledgements: await deleteAll(() => agentEvents.removeOldAcks(sql, { days: ackDays, limit })),
      health: await deleteAll(() => deploymentHealth.removeOld(sql, { days: healthDays, limit })),
      approvals: await deleteAll(() => pruneApprovals.removeEnded(sql, { days: approvalDays, limit })),
      plans: await deleteAll(() => plans.removeExpired(sql, { hours: expiredPlanHours, limit })),
      removed_pairs: await deleteAll(() => agentStackStatus.removeRemoved(sql, { hours: 2 * settings.retentionHours(), limit })),
      inventories:
        (await deleteAll(() => agentStackInventory.removeRemoved(sql, { limit }))) +
        (await deleteAll(() => agentStackInventory.removeOfDeletedAgents(sql, { limit: 100 }))),
      flows: await deleteAll(() => flows.removeRemoved(sql, { limit })),
      events: days === 0 ? 0 : await deleteAll(() => agentEvents.removeOld(sql, { days, limit })),
    }
    if (counts.sessions + counts.keys + counts.approvals > 0) deps.wakeFeed()
    return counts
  },
})
