// Closes all streams before shutdown, at a limited rate so that other brokers can take them over. Each gets a last bookmark and its own
// reconnect delay. The reader runs meanwhile, so no change is lost.
import { randomBetween } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { FeedReader } from '../reader/reader.ts'
import type { FrameStream } from './frame-stream.ts'

export interface DrainDeps {
  readonly clock: Clock
  readonly listStreams: () => FrameStream[]
  readonly reader: Pick<FeedReader, 'view'>
}
const stepMs = 100
const flushLimitMs = 5000
const reconnectMaxMs = 10_000

export async function drainStreams(deps: DrainDeps, { perSecond }: { perSecond: number }): Promise<void> {
  const perStep = Math.max(1, Math.ceil((perSecond * stepMs) / 1000))
  const streams = deps.listStreams()
  for (let at = 0; at < streams.length; at += perStep) {
    if (at > 0) await deps.clock.sleep(stepMs)
    const { view } = deps.reader
    for (const stream of streams.slice(at, at + perStep)) {
      if (view === null || view.isStandby) stream.end('drain', randomBetween(0, reconnectMaxMs))
      else stream.drain(view.cursorText, view.cursor, randomBetween(0, reconnectMaxMs))
    }
  }
  await waitUntilClosed(deps)
  for (const stream of deps.listStreams()) stream.end('drain', randomBetween(0, reconnectMaxMs))
}

/** Gives slow clients time to read their queued frames. */
async function waitUntilClosed({ clock, listStreams }: DrainDeps): Promise<void> {
  for (let waitedMs = 0; listStreams().length > 0 && waitedMs < flushLimitMs; waitedMs += stepMs) await clock.sleep(stepMs)
}
