// A list that is being received: what it mentioned so far, and whether it turned out complete. Only a list whose count and
// digest agree, over content that we hashed ourselves, says anything by what it leaves out.
import { type DigestLine, digestText } from '@brokkr/contract/digest.ts'
import type { FrameOf } from '@brokkr/contract/stream.ts'
import type { StackId } from '@brokkr/contract/wire.ts'
import { sha256 } from './held-object.ts'

/** What a complete list has proven. */
export interface Verified {
  readonly mentioned: ReadonlySet<StackId>
  /** Named as to be removed. */
  readonly dels: ReadonlySet<StackId>
  readonly allowRemovals: number | null
  /** The history it belongs to; null: a polled list does not say. */
  readonly epoch: string | null
  /** Of the broker's database server, as the list was asked for. */
  readonly boot: string | null
  /** The history that was followed before was another one, or nothing shows that it was not. */
  readonly isNewHistory: boolean
}

export class Snapshot {
  readonly id: string
  readonly allowRemovals: number | null
  readonly dels = new Map<StackId, FrameOf<'del'>>()
  /** Frames that came after the end of the list and know better than it. */
  readonly touched = new Set<StackId>()
  /** Null while the content is still to be fetched. */
  readonly #lines = new Map<StackId, DigestLine | null>()
  #end: FrameOf<'snapshot_end'> | null = null

  constructor(begin: FrameOf<'snapshot_begin'>) {
    this.id = begin.id
    this.allowRemovals = begin.allow_removals
  }

  get end(): FrameOf<'snapshot_end'> | null {
    return this.#end
  }

  mention(stackId: StackId, line: DigestLine | null): void {
    this.#lines.set(stackId, line)
  }

  finish(end: FrameOf<'snapshot_end'>): void {
    this.#end = end
  }

  get isWaiting(): boolean {
    return [...this.#lines.values()].includes(null)
  }

  /** `held` is what the map has, for a list that only says "the same as you have". */
  isComplete(held: { count: number; digest: string }): boolean {
    if (!this.#end || this.#end.removals !== this.dels.size) return false
    const lines = [...this.#lines.values()].filter((line) => line !== null)
    const { count, digest } = this.#end.unchanged ? held : { count: lines.length, digest: sha256(digestText(lines)) }
    return count === this.#end.count && digest === this.#end.digest
  }

  verified(known: Iterable<StackId>, history: Pick<Verified, 'epoch' | 'boot' | 'isNewHistory'>): Verified {
    return {
      ...history,
      mentioned: new Set([...(this.#end?.unchanged ? known : this.#lines.keys()), ...this.touched]),
      dels: new Set([...this.dels.keys()].filter((stackId) => !this.touched.has(stackId))),
      allowRemovals: this.allowRemovals,
    }
  }
}
