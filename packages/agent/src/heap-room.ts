// How much memory the process may use to work faster. An agent mostly waits and shares its node with what it deploys, so its heap is
// kept small; but while many stacks are brought about at once, collecting a small heap again and again costs a third of the work. So the
// heap may grow for as long as that lasts, and is given back right after.
import { setFlagsFromString } from 'node:v8'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { collectGarbage } from '@brokkr/runtime/collect-garbage.ts'

export interface Heap {
  mayGrow(): void
  /** Gives back what is not needed, which stops everything for some tens of milliseconds. */
  staysSmall(): void
}

/** Fewer are done before a larger heap would pay. */
const manyStacks = 10
const lookMs = 1_000

export class HeapRoom {
  readonly #clock: Clock
  readonly #heap: Heap
  readonly #depth: () => number
  #timer: { cancel(): void } | null = null
  #isLarge = false

  /** `depth`: stacks that wait for a turn or have one. */
  constructor(deps: { clock: Clock; heap: Heap }, depth: () => number) {
    this.#clock = deps.clock
    this.#heap = deps.heap
    this.#depth = depth
  }

  /** News came for a stack. */
  look(): void {
    if (this.#isLarge || this.#depth() < manyStacks) return
    this.#isLarge = true
    this.#heap.mayGrow()
    this.tidy()
  }

  /** Everything is looked at once more: no work worth a larger heap, but it leaves one behind. */
  tidy(): void {
    if (this.#timer === null) this.#wait()
  }

  stop(): void {
    this.#timer?.cancel()
  }

  #wait(): void {
    this.#timer = this.#clock.setTimer(lookMs, () => {
      if (this.#depth() >= manyStacks) return this.#wait()
      this.#timer = null
      this.#isLarge = false
      this.#heap.staysSmall()
    })
  }
}

/** The heap of this process: for a program that has it to itself. V8 reads these flags anew with every collection. */
export function ownHeap(): Heap {
  stayBelow()
  return {
    mayGrow: () => set('--semi-space-growth-factor=2', '--heap-growing-percent=50', '--no-optimize-for-size'),
    staysSmall: () => {
      stayBelow()
      collectGarbage('last-resort')
    },
  }
}

/** The last of them makes the steps small in which the heap grows, which matters more than the share. */
const stayBelow = (): void => set('--semi-space-growth-factor=1', '--heap-growing-percent=10', '--optimize-for-size')

const set = (...flags: readonly string[]): void => flags.forEach((flag) => setFlagsFromString(flag))

/** For a process that is not ours alone. */
export const anyHeap: Heap = { mayGrow: () => undefined, staysSmall: () => undefined }
