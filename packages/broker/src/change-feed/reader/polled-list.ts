// Proves that a polled list belongs to the epoch of its reader, so that an agent may remove stacks that are missing from it. The
// position is taken before the list is read and checked after it. If the server's boot is the same at both times, no backup was
// restored in between.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import * as feedState from '../store/feed-state.ts'
import { type Cursor, isCursorOfEpoch, parseCursor } from './cursor.ts'
import type { FeedReader, FeedView } from './reader.ts'

/** Feed position before a list is read, and the newest cursor its reader has. */
export interface ListPosition {
  readonly view: FeedView
  readonly seen: Cursor | null
}

/** Null while the feed has no position: then a stack missing from the list proves nothing. */
export function getListPosition(view: FeedView | null, seen: string | undefined): ListPosition | null {
  if (view === null || view.isStandby) return null
  const cursor = seen === undefined ? null : parseCursor(view.cursorKey, seen)
  if (seen !== undefined && cursor === null) throw new ApiError('bad_cursor', '`seen` is not a cursor of this broker: poll once without it')
  return { view, seen: cursor }
}

/** Call after the list was read. */
export async function isListOfEpoch(
  deps: { sql: Sql; requestNewEpoch: FeedReader['requestNewEpoch'] },
  { view, seen }: ListPosition,
): Promise<boolean> {
  const { epoch, boots } = view
  const state = await feedState.isCurrent(deps.sql, { epoch, boot: boots.boot })
  if (!state.is_current) return false
  if (seen === null || seen.epoch !== epoch) return true
  if (isCursorOfEpoch(boots, seen) && seen.snapshot.xmax <= BigInt(state.xmax)) return true
  deps.requestNewEpoch()
  return false
}
