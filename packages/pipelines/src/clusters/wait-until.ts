// Waits for a state that has no event of its own.
import type { Clock } from '@brokkr/runtime/clock.ts'

const EVERY_MS = 50

/** True when `isSo` became true; false at the limit or when the signal was aborted. */
export async function waitUntil(clock: Clock, isSo: () => boolean, options: { limitMs: number; signal: AbortSignal }): Promise<boolean> {
  const untilMs = clock.monotonicMs() + options.limitMs
  while (!isSo()) {
    if (options.signal.aborted || clock.monotonicMs() >= untilMs) return false
    await clock.sleep(EVERY_MS, options.signal).catch(() => undefined)
  }
  return true
}
