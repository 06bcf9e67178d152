// How long the event loop keeps work waiting, over the last seconds: a number for admission control and a gauge. The
// histogram of Node counts since its start; two windows make "lately" out of it.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Clock } from './clock.ts'
import type { Metrics } from './metrics.ts'

export interface EventLoopDelay {
  /** The 99th percentile of the current and the last window. */
  p99Ms(): number
  stop(): void
}

const resolutionMs = 10

export function watchEventLoopDelay(
  deps: { clock: Clock; metrics?: Metrics },
  { windowMs = 5_000 }: { windowMs?: number } = {},
): EventLoopDelay {
  const histogram = monitorEventLoopDelay({ resolution: resolutionMs })
  let startedMs = deps.clock.monotonicMs()
  let lastP99Ms = 0
  histogram.enable()
  const p99Ms = () => {
    const share = shareShown(histogram.count)
    const currentMs = share === 0 ? 0 : delayOf(histogram.percentile(share))
    const shownMs = Math.max(lastP99Ms, currentMs)
    if (deps.clock.monotonicMs() - startedMs >= windowMs) {
      startedMs = deps.clock.monotonicMs()
      lastP99Ms = currentMs
      histogram.reset()
    }
    return shownMs
  }
  const gauge = deps.metrics?.gauge('brokkr_event_loop_delay_seconds', '99th percentile of the event loop delay over the last seconds')
  deps.metrics?.beforeScrape(() => gauge?.set(p99Ms() / 1_000))
  return { p99Ms, stop: () => void histogram.disable() }
}

/** Of few samples the 99th percentile is the worst one, and one late turn, as for a large collection of garbage, would count as a loop that
 *  cannot keep up for as long as its window is young. So the worst one never counts alone. */
export const shareShown = (samples: number): number => (samples < 2 ? 0 : Math.min(99, 100 * (1 - 1.5 / samples)))

/** Node measures the distance of two ticks, which is the resolution when nothing is late; an empty histogram says 0 or NaN. */
function delayOf(nanoseconds: number): number {
  return Math.max(0, (nanoseconds || 0) / 1e6 - resolutionMs)
}
