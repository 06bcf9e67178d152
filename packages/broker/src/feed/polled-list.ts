// What makes a polled list evidence: that it was read in the history which the poller comes from. The place is taken before the list is
// read and checked after it; a server that was up all the while cannot have been given a backup in between.
import { ApiError } from '@brokkr/contract/error.ts'
import * as feedState from '../store/feed-state.ts'
import type { Sql } from '../store/sql.ts'
import { isOfHistory } from './boots.ts'
import { type Cursor, readCursor } from './cursor.ts'
import type { FeedReader, FeedView } from './reader.ts'

/** Where in which history a list begins, and what its reader has seen before. */
export interface PolledPlace {
  readonly view: FeedView
  readonly seen: Cursor | null
}

/** Null: nothing that is left out of a list counts just now. */
export function placeOf(view: FeedView | null, seen: string | undefined): PolledPlace | null {
  if (view === null || view.isStandby) return null
  const cursor = seen === undefined ? null : readCursor(view.cursorKey, seen)
  if (seen !== undefined && cursor === null) throw new ApiError('bad_cursor', 'seen is not a cursor of this broker: ask once without it')
  return { view, seen: cursor }
}

/** After the list was read: whether it is of that history, and the reader too. */
export async function isProven(deps: { sql: Sql; doubt: FeedReader['doubt'] }, { view, seen }: PolledPlace): Promise<boolean> {
  const { epoch, boots } = view
  const now = await feedState.isCurrent(deps.sql, { epoch, boot: boots.boot })
  if (!now.is_current) return false
  if (seen === null || seen.epoch !== epoch) return true
  if (isOfHistory(boots, seen) && seen.snapshot.xmax <= BigInt(now.xmax)) return true
  deps.doubt()
  return false
}
