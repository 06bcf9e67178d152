// Starts a new epoch after a failover, a restore, or an admin's request. From the commit on, cursors of the previous epoch are invalid.
// Change rows with transaction ids that this database has not reached yet are deleted first.
import { randomUUID } from 'node:crypto'
import type { Sql } from '@brokkr/postgres'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import * as changeLog from '../store/change-log.ts'
import * as feedState from '../store/feed-state.ts'

const batchRows = 10_000

/** `seen` is the epoch to replace. If several processes detect the same break, one of them replaces it. */
export async function startNewEpoch(deps: { sql: Sql; log: Log }, seen: string): Promise<void> {
  let foreignRows = 0
  for (let deleted = batchRows; deleted === batchRows; foreignRows += deleted)
    deleted = await changeLog.deleteForeign(deps.sql, { limit: batchRows })
  const epoch = await feedState.renewEpoch(deps.sql, { seen, epoch: randomUUID(), boot: randomUUID() })
  deps.log.warn('new epoch started', { renewed_here: epoch !== null, foreign_rows: foreignRows })
}
