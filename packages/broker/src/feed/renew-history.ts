// Another history of the database begins: a standby was promoted, a backup restored, or an admin says so. Cursors of the old one
// are worth nothing from the commit on, and what its log numbered by transactions that this one has not had must go first.
import { randomUUID } from 'node:crypto'
import type { Log } from '@brokkr/runtime/log.ts'
import * as changeLog from '../store/change-log.ts'
import * as feedState from '../store/feed-state.ts'
import type { Sql } from '../store/sql.ts'

const batchRows = 10_000

/** Of several processes that notice the same break, one renews. */
export async function renewHistory(deps: { sql: Sql; log: Log }, seen: string): Promise<void> {
  let foreign = 0
  for (let deleted = batchRows; deleted === batchRows; foreign += deleted)
    deleted = await changeLog.deleteForeign(deps.sql, { limit: batchRows })
  const made = await feedState.renewEpoch(deps.sql, { seen, epoch: randomUUID(), boot: randomUUID() })
  deps.log.warn('the database has another history: new epoch', { renewed_here: made !== null, foreign_rows: foreign })
}
