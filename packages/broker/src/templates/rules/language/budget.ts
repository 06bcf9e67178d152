// Limits on one rendering, counted while it runs. They end a hostile template at the same point on every machine, before the worker's
// limits on time and memory end the worker.
import { RenderError } from './template-errors.ts'

export interface RenderLimits {
  readonly outputBytes: number
  readonly steps: number
  /** Characters of all texts that the rendering creates. */
  readonly textChars: number
  /** Items of all lists that the rendering creates. */
  readonly listItems: number
  readonly macroDepth: number
}

export const defaultLimits: RenderLimits = {
  outputBytes: 8 * 1024 * 1024,
  steps: 1_000_000,
  textChars: 32 * 1024 * 1024,
  listItems: 1_000_000,
  macroDepth: 64,
}

export class Budget {
  readonly limits: RenderLimits
  #steps = 0
  #chars = 0
  #items = 0
  #depth = 0

  constructor(limits: RenderLimits) {
    this.limits = limits
  }

  step(): void {
    this.#steps += 1
    if (this.#steps > this.limits.steps) throw new RenderError(`the template needs more than ${this.limits.steps} steps`)
  }

  /** Call it before the text is created. */
  text(chars: number): void {
    if (chars > this.limits.outputBytes) throw new RenderError(`a text is longer than ${this.limits.outputBytes} characters`)
    this.#chars += chars
    if (this.#chars > this.limits.textChars)
      throw new RenderError(`the template creates more than ${this.limits.textChars} characters of text`)
  }

  /** Call it before the list is created. */
  items(count: number): void {
    this.#items += count
    if (this.#items > this.limits.listItems) throw new RenderError(`the template creates more than ${this.limits.listItems} list items`)
  }

  inMacro<T>(run: () => T): T {
    this.#depth += 1
    if (this.#depth > this.limits.macroDepth) throw new RenderError(`macros call each other deeper than ${this.limits.macroDepth} levels`)
    try {
      return run()
    } finally {
      this.#depth -= 1
    }
  }
}
