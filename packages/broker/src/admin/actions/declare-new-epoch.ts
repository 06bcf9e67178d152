// Starts a new epoch on an admin's request, for a break in the database history that the broker cannot detect. After the commit all
// earlier cursors are rejected and every subscriber receives a snapshot.
import { randomUUID } from 'node:crypto'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import * as changeLog from '../../change-feed/store/change-log.ts'
import * as feedState from '../../change-feed/store/feed-state.ts'

const batchRows = 10_000

export async function declareNewEpoch(deps: { sql: Sql; wakeFeed: () => void }, { actor }: { actor: Actor }): Promise<{ epoch: string }> {
  // Change rows with transaction ids of another history would count as unread forever.
  for (let deleted = batchRows; deleted === batchRows; ) deleted = await changeLog.deleteForeign(deps.sql, { limit: batchRows })
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
