// An admin declares that the history of the database broke where nobody could notice it: cursors issued so far are worth nothing
// from the commit on, and every follower gets a snapshot.
import { randomUUID } from 'node:crypto'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import * as changeLog from '../store/change-log.ts'
import * as feedState from '../store/feed-state.ts'
import type { Sql } from '../store/sql.ts'

const batchRows = 10_000

export async function newEpoch(deps: { sql: Sql; wakeFeed: () => void }, { by }: { by: Actor }): Promise<{ epoch: string }> {
  // Rows of transactions that this history has not had would be news for ever.
  for (let deleted = batchRows; deleted === batchRows; ) deleted = await changeLog.deleteForeign(deps.sql, { limit: batchRows })
  const epoch = await deps.sql.begin(async (sql) => {
    const { epoch: seen } = await feedState.read(sql, {})
    const made = await feedState.renewEpoch(sql, { seen, epoch: randomUUID(), boot: randomUUID() })
    await recordDeed(sql, { by, action: 'feed.new_epoch', on: { type: 'system', id: null }, details: { before: seen } })
    // Null: another process renewed it a moment ago, which is what was asked for.
    return made?.epoch ?? (await feedState.read(sql, {})).epoch
  })
  deps.wakeFeed()
  return { epoch }
}
