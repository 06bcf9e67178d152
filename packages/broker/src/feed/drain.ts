// A broker that goes down lets its streams go at a pace the others can take: each is told its place and a different moment to
// come back. The reader goes on meanwhile, so nothing is lost in between.
import { uniform } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { FeedView } from './reader.ts'
import type { FrameStream } from './stream.ts'

export interface DrainDeps {
  readonly clock: Clock
  readonly streams: () => FrameStream[]
  readonly view: () => FeedView | null
}
const stepMs = 100
const flushLimitMs = 5000
const comeBackMs = 10_000

export async function drainStreams(deps: DrainDeps, { perSecond }: { perSecond: number }): Promise<void> {
  const perStep = Math.max(1, Math.ceil((perSecond * stepMs) / 1000))
  const streams = deps.streams()
  for (let at = 0; at < streams.length; at += perStep) {
    if (at > 0) await deps.clock.sleep(stepMs)
    const view = deps.view()
    for (const stream of streams.slice(at, at + perStep)) {
      if (view === null || view.isStandby) stream.end('drain', uniform(0, comeBackMs))
      else stream.drain(view.cursorText, view.cursor, uniform(0, comeBackMs))
    }
  }
  await untilGone(deps)
  for (const stream of deps.streams()) stream.end('drain', uniform(0, comeBackMs))
}

/** A follower that reads slowly gets a moment to take what is queued for it. */
async function untilGone({ clock, streams }: DrainDeps): Promise<void> {
  for (let waitedMs = 0; streams().length > 0 && waitedMs < flushLimitMs; waitedMs += stepMs) await clock.sleep(stepMs)
}
