// Audit rows that have no deed and no transaction of their own: refused keys and denied calls. They may come in floods, so
// they are written in batches, in a bounded queue that counts what it had to drop, and drained at the stop.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import { type Deed, recordDeed } from './audit.ts'
import type { Sql } from './store/sql.ts'

export interface AuditWriter {
  record(deed: Deed): void
  /** Writes what is left. */
  close(): Promise<void>
}

const queueMax = 10_000

export function createAuditWriter(
  deps: { sql: Sql; clock: Clock; log: Log; metrics: Metrics },
  options: { flushMs: number; batchRows: number },
): AuditWriter {
  const dropped = deps.metrics.counter('brokkr_audit_dropped_total', 'Audit rows of refused calls that did not fit the queue')
  let queue: Deed[] = []
  let timer: { cancel(): void } | null = null
  let writing: Promise<void> = Promise.resolve()

  const flush = (): Promise<void> => {
    timer?.cancel()
    timer = null
    const batch = queue
    queue = []
    writing = writing
      .then(() => writeAll(batch))
      .catch((error: unknown) => {
        dropped.inc(batch.length)
        deps.log.warn('audit rows of refused calls were not written', { rows: batch.length, error: error as Error })
      })
    return writing
  }
  const writeAll = (batch: Deed[]): Promise<void> =>
    batch.length === 0
      ? Promise.resolve()
      : deps.sql.begin(async (sql) => {
          for (const deed of batch) await recordDeed(sql, deed)
        })
  return {
    record: (deed) => {
      if (queue.length >= queueMax) {
        dropped.inc()
        return
      }
      queue.push(deed)
      if (queue.length >= options.batchRows) void flush()
      else timer ??= deps.clock.setTimer(options.flushMs, () => void flush())
    },
    close: () => flush(),
  }
}
