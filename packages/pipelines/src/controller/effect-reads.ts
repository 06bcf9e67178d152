// When this process last read each effect, by the monotonic clock: a clock that is set back must not delay the next read. A requested pass
// (`reconcile.fluxcd.io/requestedAt`) reads again before the interval is over.
import { REQUESTED_AT_ANNOTATION } from '@brokkr/contract/pipelines/fields.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { PipelineRecord } from '../objects.ts'

export class EffectReads {
  readonly #clock: Clock
  /** Requests in quick succession do not read the forge more often. */
  readonly #floorMs: number
  readonly #reads = new Map<string, { atMs: number; requestedAt: string | undefined }>()

  constructor({ clock }: { clock: Clock }, floorMs: number) {
    this.#clock = clock
    this.#floorMs = floorMs
  }

  record(promotionUid: string, { annotations }: Pick<PipelineRecord, 'annotations'>): void {
    this.#reads.set(promotionUid, { atMs: this.#clock.monotonicMs(), requestedAt: annotations[REQUESTED_AT_ANNOTATION] })
  }

  /** Time, by the wall clock of now, that the next read is `pollMs` after; null: the effect was not read yet. */
  dueBaseMs(promotionUid: string, { annotations }: Pick<PipelineRecord, 'annotations'>, pollMs: number): number | null {
    const read = this.#reads.get(promotionUid)
    if (read === undefined) return null
    const readMs = this.#clock.now() - (this.#clock.monotonicMs() - read.atMs)
    return this.isRequested(promotionUid, { annotations }) ? readMs - pollMs + Math.min(pollMs, this.#floorMs) : readMs
  }

  /** Whether a pass was requested since the last read. */
  isRequested(promotionUid: string, { annotations }: Pick<PipelineRecord, 'annotations'>): boolean {
    const read = this.#reads.get(promotionUid)
    return read !== undefined && annotations[REQUESTED_AT_ANNOTATION] !== read.requestedAt
  }

  keep(openUids: ReadonlySet<string>): void {
    for (const uid of this.#reads.keys()) if (!openUids.has(uid)) this.#reads.delete(uid)
  }
}
