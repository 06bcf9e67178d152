// Checks once per second whether this process is overloaded. While its event loop is late because of its own work, or its memory is
// full, it refuses new streams. If that does not help, it closes the newest streams a few at a time, so that other brokers take them.
import { randomBetween } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { watchEventLoopDelay } from '@brokkr/runtime/metrics/event-loop-delay.ts'
import type { FrameStream } from './frame-stream.ts'

export interface Pressure {
  /** Event loop delay caused by this process itself. */
  readonly loopDelayMs: number
  /** Used share of the memory limit. */
  readonly memory: number
}
export interface OverloadLimits {
  readonly loopDelayMs: number
  readonly memory: number
}
export type Shedding = { readonly refuse: false } | { readonly refuse: true; readonly close: number }

const measuredEveryMs = 1_000
/** Seconds in a row under pressure before open streams are closed. */
const secondsBeforeClosing = 10
const shareClosed = 0.05

/** Pure. `seconds`: how long the pressure has lasted. */
export function decideShedding(pressure: Pressure, limits: OverloadLimits, current: { seconds: number; streams: number }): Shedding {
  if (pressure.loopDelayMs <= limits.loopDelayMs && pressure.memory <= limits.memory) return { refuse: false }
  return { refuse: true, close: current.seconds < secondsBeforeClosing ? 0 : Math.ceil(current.streams * shareClosed) }
}

interface OverloadDeps {
  readonly clock: Clock
  readonly log: Log
  readonly listStreams: () => FrameStream[]
}
export interface OverloadGuard {
  isRefusing(): boolean
  start(): { stop(): void }
}

export function createOverloadGuard(deps: OverloadDeps, limits: OverloadLimits): OverloadGuard {
  let seconds = 0
  const check = (pressure: Pressure) => {
    const streams = deps.listStreams()
    const shedding = decideShedding(pressure, limits, { seconds, streams: streams.length })
    if (shedding.refuse && seconds === 0) deps.log.warn('broker overloaded, new streams refused', { ...pressure })
    seconds = shedding.refuse ? seconds + 1 : 0
    if (!shedding.refuse || shedding.close === 0) return
    const newest = streams.toSorted((a, b) => b.openedAtMs - a.openedAtMs).slice(0, shedding.close)
    for (const stream of newest) stream.end('overloaded', randomBetween(1000, 10_000))
  }
  return {
    isRefusing: () => seconds > 0,
    start: () => {
      const delay = watchEventLoopDelay(deps, { windowMs: measuredEveryMs })
      const measure = () => ({ loopDelayMs: delay.ownP99Ms(), memory: process.memoryUsage.rss() / getMemoryMax() })
      const ticker = startTicker(deps.clock, measuredEveryMs, () => check(measure()))
      return {
        stop: () => {
          delay.stop()
          ticker.stop()
        },
      }
    },
  }
}

/** Memory limit of the container, or the memory of the machine. */
const getMemoryMax = (): number => {
  const constrained = process.constrainedMemory()
  const available = process.availableMemory() + process.memoryUsage.rss()
  return constrained > 0 && constrained < Number.MAX_SAFE_INTEGER ? constrained : available
}

/** Runs a synchronous function at an interval. Unlike a loop of the runtime it logs nothing: it runs several times per second. */
export function startTicker(clock: Clock, everyMs: number, run: () => void): { stop(): void } {
  let timer = clock.setTimer(everyMs, tick)
  function tick(): void {
    run()
    timer = clock.setTimer(everyMs, tick)
  }
  return { stop: () => timer.cancel() }
}
