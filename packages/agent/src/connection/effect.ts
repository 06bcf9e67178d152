// Effects of a frame: returned by the frame processor, executed by the stream runner.
import type { StackId } from '@brokkr/contract/wire.ts'
import type { VerifiedSnapshot } from '../desired-state/snapshot.ts'

export interface ContentRequest {
  readonly objectId: string
  readonly checksum: string
  readonly path: string
}
export type Effect =
  | { readonly do: 'reconcile'; readonly stackId: StackId }
  | { readonly do: 'fetch'; readonly content: ContentRequest }
  | { readonly do: 'ignored'; readonly reason: 'older' | 'same' }
  | { readonly do: 'verified'; readonly snapshot: VerifiedSnapshot }
  | { readonly do: 'session'; readonly session: number; readonly isStateReplaced: boolean }
  /** A resource of this agent may have changed at the broker: read it. */
  | { readonly do: 'refresh'; readonly what: string; readonly spreadMs: number }
  | { readonly do: 'unverified' }
  | { readonly do: 'bye'; readonly reason: string; readonly retryAfterMs: number }

export class BrokenFrame extends Error {
  override readonly name = 'BrokenFrame'
}
