// Bounds the passes that call Git, a forge or another outside server. A pass without a free slot ends and is repeated when a slot is released,
// so that slow servers never occupy the workers that the passes of other Pipelines need.
import type { Step } from '../decide/decide.ts'

/** Workers beside those with an effect: they observe, decide and write records. */
export const QUICK_WORKERS = 2

export class EffectSlots {
  readonly #max: number
  readonly #wake: (pipelineKey: string) => void
  /** Pipelines without a slot, the one that waits longest first. */
  readonly #waiting = new Set<string>()
  #used = 0

  constructor(max: number, wake: (pipelineKey: string) => void) {
    this.#max = max
    this.#wake = wake
  }

  /** Returns the release; null: no slot is free, and the Pipeline is woken when one is. */
  take(pipelineKey: string): (() => void) | null {
    if (this.#used >= this.#max) {
      this.#waiting.add(pipelineKey)
      return null
    }
    this.#waiting.delete(pipelineKey)
    this.#used += 1
    return () => this.#release()
  }

  #release(): void {
    this.#used -= 1
    const [next] = this.#waiting
    if (next === undefined) return
    this.#waiting.delete(next)
    this.#wake(next)
  }
}

/** Whether the step calls an outside server. */
export function hasEffect(step: Step): boolean {
  if (step.do === 'supersede') return step.withdraw !== null
  return step.do === 'advance' && step.advance.do !== 'write'
}
