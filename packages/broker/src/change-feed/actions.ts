// Starts a new epoch after a failover, a restore, or an admin's request. From the commit on, cursors of the previous epoch are invalid.
import { randomUUID } from 'node:crypto'
import type { Sql } from '@brokkr/postgres'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { recordAuditEntry } from '../audit/record.ts'
import type { Actor } from '../audit/rules.ts'
import * as changeLog from './store/change-log.ts'
import * as feedState from './store/feed-state.ts'

const batchRows = 10_000

/** `seen` is the epoch to replace. If several processes detect the same break, one of them replaces it. */
export async function startNewEpoch(deps: { sql: Sql; log: Log }, seen: string): Promise<void> {
  const foreignRows = await deleteForeignRows(deps.sql)
  const epoch = await feedState.renewEpoch(deps.sql, { seen, epoch: randomUUID(), boot: randomUUID() })
  deps.log.warn('new epoch started', { renewed_here: epoch !== null, foreign_rows: foreignRows })
}

/** Starts a new epoch on an admin's request, for a break in the database history that the broker cannot detect. After the commit all
 * earlier cursors are rejected and every subscriber receives a snapshot. */
export async function declareNewEpoch(deps: { sql: Sql; wakeFeed: () => void }, { actor }: { actor: Actor }): Promise<{ epoch: string }> {
  await deleteForeignRows(deps.sql)
  const epoch = await deps.sql.begin(async (sql) => {
    const { epoch: previous } = await feedState.read(sql, {})
    const renewal = await feedState.renewEpoch(sql, { seen: previous, epoch: randomUUID(), boot: randomUUID() })
    await recordAuditEntry(sql, { actor, action: 'feed.new_epoch', resource: { type: 'system', id: null }, details: { before: previous } })
    // null: another process started a new epoch at the same time, which satisfies this request too.
    return renewal?.epoch ?? (await feedState.read(sql, {})).epoch
  })
  deps.wakeFeed()
  return { epoch }
}

/** Change rows with transaction ids that this database has not reached yet; they would count as unread forever. */
async function deleteForeignRows(sql: Sql): Promise<number> {
  let total = 0
  for (let deleted = batchRows; deleted === batchRows; total += deleted) deleted = await changeLog.deleteForeign(sql, { limit: batchRows })
  return total
}
