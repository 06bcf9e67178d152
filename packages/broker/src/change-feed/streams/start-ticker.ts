// Runs a synchronous function at an interval. Unlike a loop of the runtime it logs nothing: it runs several times per second.
import type { Clock } from '@brokkr/runtime/clock.ts'

export function startTicker(clock: Clock, everyMs: number, run: () => void): { stop(): void } {
  let timer = clock.setTimer(everyMs, tick)
  function tick(): void {
    run()
    timer = clock.setTimer(everyMs, tick)
  }
  return { stop: () => timer.cancel() }
}
