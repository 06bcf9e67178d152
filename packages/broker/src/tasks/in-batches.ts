// Repeats a bounded statement until nothing is left: each batch its own transaction, a pause between two, and an end in time.
import type { Clock } from '@brokkr/runtime/clock.ts'

export interface BatchLimits {
  readonly pauseMs: number
  /** No batch begins after it. */
  readonly budgetMs: number
  readonly signal: AbortSignal
}

/** How many rows all batches changed. */
export async function inBatches(clock: Clock, limits: BatchLimits, batch: () => Promise<number>): Promise<number> {
  const startedMs = clock.monotonicMs()
  let total = 0
  while (!limits.signal.aborted && clock.monotonicMs() - startedMs < limits.budgetMs) {
    const changed = await batch()
    total += changed
    if (changed === 0) break
    await clock.sleep(limits.pauseMs, limits.signal).catch(() => undefined)
  }
  return total
}
