// A change of nothing, every few seconds from every process: whoever reads the feed can time how long news take to arrive.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { type RunningLoop, startLoop } from '@brokkr/runtime/loop.ts'
import * as changeLog from '../store/change-log.ts'
import type { Sql } from '../store/sql.ts'

export function startCanary(
  deps: { sql: Sql; clock: Clock; log: Log; wake: () => void },
  options: { processId: string; everyMs: number },
): RunningLoop {
  const run = async () => {
    try {
      await changeLog.writeCanary(deps.sql, { process: options.processId })
      deps.wake()
    } catch (error) {
      // The feed itself says when the database has gone.
      deps.log.debug('canary not written', { error: error as Error })
    }
  }
  return startLoop({ clock: deps.clock, log: deps.log }, { name: 'feed-canary', everyMs: options.everyMs, run })
}
