// Drops monthly partitions of the audit log that are older than the retention, and creates the partition of the next month.
import type { Sql } from '@brokkr/postgres'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Task } from '../tasks/task.ts'
import * as auditLogs from './store.ts'

/** A retention of 0 days keeps everything. */
export const auditCleanup = (deps: { sql: Sql; log: Log }, settings: { everyMs: () => number; retentionDays: () => number }): Task => ({
  name: 'audit-cleanup',
  everyMs: settings.everyMs,
  run: async () => {
    await auditLogs.makePartitions(deps.sql, {})
    const days = settings.retentionDays()
    if (days === 0) return { dropped: 0 }
    const { dropped, outside } = await auditLogs.dropOld(deps.sql, { days })
    if (outside > 0) deps.log.warn('audit rows outside all partitions are not cleaned up', { rows: outside })
    return { dropped }
  },
})
