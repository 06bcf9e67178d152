// The full scan over all Pipelines. Changes go first: only a few keys of the scan wait in the queue at a time, and the next ones follow when
// workers have taken them, so that a change waits for one batch and not for the whole scan. A slow pass occupies its own worker alone.
import type { Clock } from '@brokkr/runtime/clock.ts'

export interface Sweep {
  readonly queue: { enqueue(key: string): void; whenDrained(): Promise<void> }
  readonly keys: readonly string[]
  /** Keys at a time: as many as there are workers. */
  readonly batch: number
}

/** Under a constant load of changes keys wait all the time; the scan goes on all the same, slowly. */
const PATIENCE_MS = 1_000

export async function sweep({ clock }: { clock: Clock }, { queue, keys, batch }: Sweep, signal: AbortSignal): Promise<void> {
  for (let at = 0; at < keys.length; at += batch) {
    await drainedOrPatience(clock, queue, signal)
    if (signal.aborted) return
    for (const key of keys.slice(at, at + batch)) queue.enqueue(key)
  }
}

async function drainedOrPatience(clock: Clock, queue: Sweep['queue'], signal: AbortSignal): Promise<void> {
  const over = new AbortController()
  const patience = clock.sleep(PATIENCE_MS, AbortSignal.any([over.signal, signal])).catch(() => undefined)
  await Promise.race([queue.whenDrained(), patience])
  over.abort()
}
