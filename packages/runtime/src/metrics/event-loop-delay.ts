// Measures the event-loop delay of the last seconds, for admission control and as a gauge. Node's histogram counts since its start;
// two windows give recent values.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { Clock } from '../clock.ts'
import type { Metrics } from './metrics.ts'

export interface EventLoopDelay {
  /** The 99th percentile of the current and the last window. */
  p99Ms(): number
  /** The same for windows in which this thread was busy itself. In the others the operating system ran other programs: the loop was
   *  late without having too much to do, so these windows count as 0. */
  ownP99Ms(): number
  stop(): void
}

interface Window {
  readonly p99Ms: number
  /** Share of one CPU that this thread used. */
  readonly utilization: number
}

const resolutionMs = 10
/** A thread below this share of a CPU can serve more. Beside other busy programs it gets less CPU, with any backlog. */
const busyUtilization = 0.5

export function watchEventLoopDelay(
  deps: { clock: Clock; metrics?: Metrics; readThreadCpuMs?: () => number },
  { windowMs = 5_000 }: { windowMs?: number } = {},
): EventLoopDelay {
  const histogram = monitorEventLoopDelay({ resolution: resolutionMs })
  let startedMs = deps.clock.monotonicMs()
  const readCpuMs = deps.readThreadCpuMs ?? readThreadCpuMs
  let utilizationNow = startCpuTimer(readCpuMs)
  let last: Window = { p99Ms: 0, utilization: 0 }
  histogram.enable()
  const windows = (): readonly Window[] => {
    const share = readShare(histogram.count)
    const current = { p99Ms: share === 0 ? 0 : readDelayMs(histogram.percentile(share)), utilization: utilizationNow() }
    const bothWindows = [last, current]
    if (deps.clock.monotonicMs() - startedMs >= windowMs) {
      startedMs = deps.clock.monotonicMs()
      utilizationNow = startCpuTimer(readCpuMs)
      last = current
      histogram.reset()
    }
    return bothWindows
  }
  const p99Ms = () => Math.max(...windows().map((window) => window.p99Ms))
  const gauge = deps.metrics?.gauge('brokkr_event_loop_delay_seconds', '99th percentile of the event loop delay over the last seconds')
  deps.metrics?.beforeScrape(() => gauge?.set(p99Ms() / 1_000))
  return { p99Ms, ownP99Ms: () => Math.max(...windows().map(subtractResolution)), stop: () => void histogram.disable() }
}

const subtractResolution = ({ p99Ms, utilization }: Window): number => (utilization < busyUtilization ? 0 : p99Ms)

/** Returns the share of one CPU that this thread has used since now. */
function startCpuTimer(readCpuMs: () => number): () => number {
  const [startedMs, cpuStartedMs] = [performance.now(), readCpuMs()]
  return () => (readCpuMs() - cpuStartedMs) / Math.max(1, performance.now() - startedMs)
}

function readThreadCpuMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}

/** Of few samples the 99th percentile is the worst one, and one late turn, as for a large collection of garbage, would count as a loop that
 *  cannot keep up for as long as its window is young. So the worst one never counts alone. */
export const readShare = (samples: number): number => (samples < 2 ? 0 : Math.min(99, 100 * (1 - 1.5 / samples)))

/** Node measures the interval between two ticks, which equals the resolution without delay; an empty histogram gives 0 or NaN. */
function readDelayMs(nanoseconds: number): number {
  return Math.max(0, (nanoseconds || 0) / 1e6 - resolutionMs)
}
