// Writes an empty change row at an interval, so that every reader can measure the delay of the change feed.

import type { Sql } from '@brokkr/postgres'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import * as changeLog from '../store/change-log.ts'

export const writeCanaries = (deps: { sql: Sql; log: Log; wake: () => void }, options: { processId: string; everyMs: number }): Loop => ({
  name: 'feed-canary',
  everyMs: options.everyMs,
  run: async () => {
    try {
      await changeLog.writeCanary(deps.sql, { process: options.processId })
      deps.wake()
    } catch (error) {
      // The reader logs when the database is unreachable.
      deps.log.debug('canary not written', { error: error as Error })
    }
  },
})
