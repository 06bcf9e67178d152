// Interface of background tasks, and the loop over batches that they share.
import type { Clock } from '@brokkr/runtime/clock.ts'

// Interface of a background task. A task takes no input, acts on the current state and returns counts for operators.
export interface Task {
  readonly name: string
  /** Read before each wait, so that a changed setting takes effect. */
  readonly everyMs: () => number
  /** Runs in every process, which requires that row locks separate them. Other tasks run in one process per tick. */
  readonly isEverywhere?: true
  /** `signal` aborts when the process stops or the lease is lost. */
  run(signal: AbortSignal): Promise<Record<string, number>>
}

// Repeats a bounded statement until it changes no row. Each batch is its own transaction, with a pause between batches and a time budget.

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
