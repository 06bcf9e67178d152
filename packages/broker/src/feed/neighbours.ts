// Whether another process listens to this feed. Every NOTIFY carries the id of its process, the test of its own listener among them, so
// that whoever listens is heard by the others sooner or later. A process alone needs no NOTIFY: its own reader is woken directly.
import type { Clock } from '@brokkr/runtime/clock.ts'

export interface Neighbours {
  /** What came over the channel, from whomever. */
  readonly heard: (payload: string) => void
  /** True only for who would hear another one. */
  readonly isAlone: () => boolean
}
export interface NeighboursDeps {
  readonly clock: Clock
  readonly processId: string
  /** How often each of them is heard at least. */
  readonly testEveryMs: number
  readonly isListening: () => boolean
  /** Somebody new: what was committed before it was heard of was told to nobody. */
  readonly onNew: () => void
}

/** To remember one that is gone costs a few notifications to nobody. */
const rememberedMinMs = 600_000

export function createNeighbours({ clock, processId, testEveryMs, isListening, onNew }: NeighboursDeps): Neighbours {
  const rememberedMs = Math.max(rememberedMinMs, 4 * testEveryMs)
  let heardAtMs = Number.NEGATIVE_INFINITY
  const isKnown = () => clock.monotonicMs() - heardAtMs < rememberedMs
  return {
    heard: (payload) => {
      // A command beside the broker names nobody: it tells of a change and listens to nothing.
      if (payload === '' || payload === processId) return
      const isNew = !isKnown()
      heardAtMs = clock.monotonicMs()
      if (isNew) onNew()
    },
    isAlone: () => isListening() && !isKnown(),
  }
}
