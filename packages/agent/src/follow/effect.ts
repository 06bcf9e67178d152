// What follows from a frame: said by the connection, carried out by whoever reads the stream.
import type { StackId } from '@brokkr/contract/wire.ts'
import type { Verified } from './snapshot.ts'

export interface ContentWanted {
  readonly objectId: string
  readonly checksum: string
  readonly path: string
}
export type Effect =
  | { readonly do: 'look'; readonly stackId: StackId }
  | { readonly do: 'fetch'; readonly content: ContentWanted }
  | { readonly do: 'ignored'; readonly reason: 'older' | 'same' }
  | { readonly do: 'verified'; readonly list: Verified }
  | { readonly do: 'session'; readonly session: number; readonly isNewEpoch: boolean }
  /** Something of ours at the broker may have changed: read it there. */
  | { readonly do: 'ask'; readonly what: string; readonly spreadMs: number }
  | { readonly do: 'unverified' }
  | { readonly do: 'bye'; readonly reason: string; readonly retryAfterMs: number }

export class BrokenFrame extends Error {
  override readonly name = 'BrokenFrame'
}
