// Repeats a bounded statement until it changes no row. Each batch is its own transaction, with a pause between batches and a time budget.
import type { Clock } from '@brokkr/runtime/clock.ts'

export interface BatchLimits {
  readonly pauseMs: number
  /** No batch starts after it. */
  readonly budgetMs: number
  readonly signal: AbortSignal
}

/** Returns the number of rows that all batches changed. */
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
