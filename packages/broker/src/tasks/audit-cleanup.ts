// Audit rows older than their retention go by whole months; room for the next month is made ahead of time.
import type { Log } from '@brokkr/runtime/log.ts'
import * as auditLogs from '../store/audit-logs.ts'
import type { Sql } from '../store/sql.ts'
import type { Task } from './task.ts'

/** 0 days: for ever. */
export const auditCleanup = (deps: { sql: Sql; log: Log }, settings: { everyMs: () => number; retentionDays: () => number }): Task => ({
  name: 'audit-cleanup',
  everyMs: settings.everyMs,
  run: async () => {
    await auditLogs.makePartitions(deps.sql, {})
    const days = settings.retentionDays()
    if (days === 0) return { dropped: 0 }
    const { dropped, outside } = await auditLogs.dropOld(deps.sql, { days })
    if (outside > 0) deps.log.warn('audit rows lie outside every month and are not cleaned up', { rows: outside })
    return { dropped }
  },
})
