// A snapshot in progress: the stacks that it lists, and whether it is complete. Stacks that it does not list count as absent only if
// count and digest match.
import { type DigestLine, digestText } from '@brokkr/contract/feed/digest.ts'
import type { FrameOf } from '@brokkr/contract/feed/stream.ts'
import type { StackId } from '@brokkr/contract/wire.ts'
import { sha256 } from './cached-manifest.ts'

/** Result of a complete snapshot. */
export interface VerifiedSnapshot {
  readonly listed: ReadonlySet<StackId>
  /** Stacks with a `del` frame. */
  readonly removals: ReadonlySet<StackId>
  readonly allowRemovals: number | null
  /** Epoch of the snapshot; null: the response to a poll does not contain it. */
  readonly epoch: string | null
  /** Boot id of the broker's database server at the request. */
  readonly boot: string | null
  /** The stored state belongs to another epoch, or may belong to one. */
  readonly isNewEpoch: boolean
}

export class Snapshot {
  readonly id: string
  readonly allowRemovals: number | null
  readonly removals = new Map<StackId, FrameOf<'del'>>()
  /** Stacks that changed after the end of the snapshot; these changes win. */
  readonly changedAfterEnd = new Set<StackId>()
  /** Null while the content is being fetched. */
  readonly #entries = new Map<StackId, DigestLine | null>()
  #end: FrameOf<'snapshot_end'> | null = null

  constructor(begin: FrameOf<'snapshot_begin'>) {
    this.id = begin.id
    this.allowRemovals = begin.allow_removals
  }

  get end(): FrameOf<'snapshot_end'> | null {
    return this.#end
  }

  recordListed(stackId: StackId, entry: DigestLine | null): void {
    this.#entries.set(stackId, entry)
  }

  finish(end: FrameOf<'snapshot_end'>): void {
    this.#end = end
  }

  get isWaiting(): boolean {
    return [...this.#entries.values()].includes(null)
  }

  /** `current` is the summary of the present state, for a snapshot that is marked `unchanged`. */
  isComplete(current: { count: number; digest: string }): boolean {
    if (!this.#end || this.#end.removals !== this.removals.size) return false
    const entries = [...this.#entries.values()].filter((entry) => entry !== null)
    const { count, digest } = this.#end.unchanged ? current : { count: entries.length, digest: sha256(digestText(entries)) }
    return count === this.#end.count && digest === this.#end.digest
  }

  toVerified(currentStacks: Iterable<StackId>, origin: Pick<VerifiedSnapshot, 'epoch' | 'boot' | 'isNewEpoch'>): VerifiedSnapshot {
    return {
      ...origin,
      listed: new Set([...(this.#end?.unchanged ? currentStacks : this.#entries.keys()), ...this.changedAfterEnd]),
      removals: new Set([...this.removals.keys()].filter((stackId) => !this.changedAfterEnd.has(stackId))),
      allowRemovals: this.allowRemovals,
    }
  }
}
