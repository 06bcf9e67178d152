// Events inside the change feed. The composition root (change-feed.ts) subscribes the parts to them; listeners run synchronously.
import { EventEmitter } from 'node:events'
import type { ChangeRow } from '../store/change-log.ts'
import type { DatabaseSnapshot } from './cursor.ts'

export interface PublishedBatch {
  readonly cursor: DatabaseSnapshot
  readonly cursorText: string
  readonly atMs: number
}
export interface PollResult {
  readonly byTimer: boolean
  readonly rows: number
  readonly seconds: number
}

interface FeedEventMap {
  /** A change row was read; its frames are not queued yet. */
  row: [row: ChangeRow]
  /** All frames of a batch are queued. */
  published: [batch: PublishedBatch]
  /** A put frame was queued this long after its deployment object was created. */
  putQueued: [ageSeconds: number]
  polled: [result: PollResult]
  /** From this database snapshot on, the reader reads every row: at the first poll, in a new epoch, and after lost rows. */
  readingStarted: [from: DatabaseSnapshot]
  /** The database history broke (failover, restore): cursors of the previous epoch are invalid. */
  newEpoch: []
  /** Cleanup deleted change rows that this process had not read. */
  rowsLost: []
  /** Changes of credentials may have been missed. */
  credentialsInDoubt: []
}

export type FeedEvents = EventEmitter<FeedEventMap>

export const createFeedEvents = (): FeedEvents => new EventEmitter<FeedEventMap>()
