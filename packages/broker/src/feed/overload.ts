// Too much for this process? Looked at once a second: a slow event loop or a full memory refuses new streams first; if that does
// not help, the newest streams go, a few at a time, for others have room.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { uniform } from '@brokkr/runtime/backoff.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { FrameStream } from './stream.ts'

export interface Pressure {
  readonly loopDelayMs: number
  /** Share of the memory this process may use. */
  readonly memory: number
}
export interface OverloadLimits {
  readonly loopDelayMs: number
  readonly memory: number
}
export type Relief = { readonly refuse: false } | { readonly refuse: true; readonly close: number }

/** Seconds in a row under pressure before open streams are closed. */
const patience = 10
const shareClosed = 0.05

/** Pure: what to do about `pressure` after so many seconds of it in a row. */
export function decideRelief(pressure: Pressure, limits: OverloadLimits, given: { seconds: number; streams: number }): Relief {
  if (pressure.loopDelayMs <= limits.loopDelayMs && pressure.memory <= limits.memory) return { refuse: false }
  return { refuse: true, close: given.seconds < patience ? 0 : Math.ceil(given.streams * shareClosed) }
}

interface OverloadDeps {
  readonly everybody: () => FrameStream[]
  readonly measure: () => Pressure
  readonly log: Log
}

/** Called once a second. */
export function startOverloadGuard(deps: OverloadDeps, limits: OverloadLimits): { isRefusing(): boolean; readonly tick: () => void } {
  let seconds = 0
  return {
    isRefusing: () => seconds > 0,
    tick: () => {
      const streams = deps.everybody()
      const measured = deps.measure()
      const relief = decideRelief(measured, limits, { seconds, streams: streams.length })
      if (relief.refuse && seconds === 0) deps.log.warn('overloaded: new streams are refused', { ...measured })
      seconds = relief.refuse ? seconds + 1 : 0
      if (!relief.refuse || relief.close === 0) return
      const newest = streams.toSorted((a, b) => b.openedAtMs - a.openedAtMs).slice(0, relief.close)
      for (const stream of newest) stream.end('overloaded', uniform(1000, 10_000))
    },
  }
}

export interface OverloadWatch {
  /** What was measured since the last call. */
  readonly measure: () => Pressure
  stop(): void
}

export function watchPressure(): OverloadWatch {
  const delays = monitorEventLoopDelay({ resolution: 20 })
  delays.enable()
  return {
    measure: () => {
      const loopDelayMs = delays.count === 0 ? 0 : delays.percentile(99) / 1e6
      delays.reset()
      return { loopDelayMs, memory: process.memoryUsage.rss() / memoryMax() }
    },
    stop: () => void delays.disable(),
  }
}

/** What the container or the machine gives. */
const memoryMax = (): number => {
  const constrained = process.constrainedMemory()
  const available = process.availableMemory() + process.memoryUsage.rss()
  return constrained > 0 && constrained < Number.MAX_SAFE_INTEGER ? constrained : available
}
