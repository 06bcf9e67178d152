// The feed of one process, put together: reader, listener, open streams and watches, and the clock that pings them.
// Everything that opens here is closed by stop().
import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { ApiError } from '@brokkr/contract/error.ts'
import { uniform } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { startLoop } from '@brokkr/runtime/loop.ts'
import type { Seal } from '../seal.ts'
import type { ChangeRow } from '../store/change-log.ts'
import type { Database } from '../store/db.ts'
import * as feedState from '../store/feed-state.ts'
import { createAdmission } from './admission.ts'
import { type Cursor, readCursor } from './cursor.ts'
import { drainStreams } from './drain.ts'
import { farEndCheck } from './far-end.ts'
import { createWaker, startListener } from './listener.ts'
import { type OpenDeps, openStream, type StreamWish } from './open-stream.ts'
import { createPublisher } from './publish.ts'
import { type FeedView, startReader } from './reader.ts'
import { Registry } from './registry.ts'
import { Ring } from './ring.ts'
import { createSessions } from './sessions.ts'
import type { AgentStream, ByeReason } from './stream.ts'
import { createWatches, type WatchWish } from './watch.ts'

export interface FeedSettings {
  readonly poll_ms: number
  readonly ping_seconds: number
  readonly stale_seconds: readonly [number, number]
  readonly stream_life_seconds: readonly [number, number]
  readonly queue_keys: number
  readonly queue_bytes: number
  readonly slow_seconds: number
  readonly ring_rows: number
  readonly ring_seconds: number
  readonly inline_bytes: number
  readonly listener_test_seconds: readonly [number, number]
  readonly streams_max: number
  readonly snapshots: number
  readonly snapshots_waiting: number
  readonly dead_seconds: number
  readonly far_end_check_seconds: number
  readonly drain_per_second: number
}
export interface FeedDeps {
  readonly database: Database
  readonly seal: Seal
  readonly clock: Clock
  readonly log: Log
  readonly schema: string
  readonly settings: FeedSettings
  readonly brokerName: string
  /** A credential changed or died: caches must let go of it. */
  readonly onCredential: (kind: string, id: string) => void
}
export interface Feed {
  /** After a commit: wakes our own reader and every other process. */
  readonly wake: () => void
  /** Grants may be cached only while the feed is read; null: it is, else why not. */
  trouble(): 'starting' | 'stale' | 'not primary' | null
  readonly readCursor: (text: string) => Cursor | null
  /** `answer` takes the response over once nothing can be refused any more. */
  openStream(answer: () => ServerResponse, who: { agentId: string; expiresAtMs: number | null }, wished: StreamWish): Promise<void>
  openWatch(answer: () => ServerResponse, wish: WatchWish): void
  readonly streams: number
  /** Nothing new; every stream gets a bye and its place. The reader goes on until stop(). */
  drain(): Promise<void>
  stop(): Promise<void>
}

export function startFeed(deps: FeedDeps): Feed {
  const { database, clock, log, settings } = deps
  const registry = new Registry<AgentStream>()
  const ring = new Ring({ rowsMax: settings.ring_rows, ageMs: settings.ring_seconds * 1000 })
  const channel = `brokkr_feed_${deps.schema}`
  const watches = createWatches(clock, () => reader.view)
  const closeAll = (reason: ByeReason, spreadMs: number) => {
    for (const stream of registry.all()) stream.end(reason, uniform(0, spreadMs))
  }
  const onControl = (row: ChangeRow) => {
    if (row.object_id === null) return
    deps.onCredential(row.object_kind, row.object_id)
    watches.closeOf(`${row.object_kind} ${row.object_id}`)
    if (row.object_kind === 'agent') for (const stream of registry.all()) if (stream.agentId === row.object_id) stream.end('revoked', 0)
  }
  const publisher = createPublisher({
    sql: database,
    seal: deps.seal,
    log,
    registry,
    ring,
    inlineBytes: settings.inline_bytes,
    onControl,
    onAnyRow: watches.offer,
  })
  const reader = startReader({
    connect: database.connect,
    publisher,
    clock,
    log,
    pollMs: () => settings.poll_ms,
    onNewEpoch: () => {
      ring.clear(publisher.nextBatch)
      closeAll('epoch', 30_000)
      watches.closeAll()
    },
    renewEpoch: async (seen) => {
      const made = await feedState.renewEpoch(database, { seen, epoch: randomUUID() })
      log.warn('the database has another history: new epoch', { renewed_here: made !== null })
    },
  })
  const processId = randomUUID()
  const sessions = createSessions({ sql: database, clock, log, processId })
  const [testEvery, testLimit] = settings.listener_test_seconds
  const listener = startListener({
    connect: database.connect,
    sql: database,
    clock,
    log,
    channel,
    processId,
    onWake: reader.wake,
    testEveryMs: testEvery * 1000,
    testLimitMs: testLimit * 1000,
  })

  const ageMs = () => (reader.view === null ? Number.POSITIVE_INFINITY : clock.monotonicMs() - reader.view.polledAtMs)
  const trouble = (): ReturnType<Feed['trouble']> => {
    if (reader.view === null) return 'starting'
    if (reader.view.isStandby) return 'not primary'
    return ageMs() > settings.stale_seconds[0] * 1000 ? 'stale' : null
  }
  let isDraining = false
  const refuseWhenDraining = () => {
    if (isDraining) throw new ApiError('draining', 'this broker is going down: connect again', { retryAfterSeconds: 1 })
  }
  const pingMs = settings.ping_seconds * 1000
  const ticker = startTicker(clock, Math.min(1000, pingMs / 4), () => {
    const isStale = trouble() !== null
    if (ageMs() > settings.stale_seconds[1] * 1000 && reader.view !== null) closeAll('stale', 10_000)
    for (const stream of registry.all()) tickStream(stream, reader.view, pingMs, isStale)
    watches.tick(pingMs)
    sessions.tick(Array.from(registry.all(), (stream) => stream.agentId))
  })

  const farEnd = startLoop({ clock, log }, farEndCheck({ sql: database, clock, registry, trouble }, settings))
  const opening: OpenDeps = {
    sql: database,
    seal: deps.seal,
    publisher,
    registry,
    ring,
    inlineBytes: settings.inline_bytes,
    wakeReader: reader.wake,
    clock,
    log,
    admission: createAdmission({ slots: settings.snapshots, waitingMax: settings.snapshots_waiting }),
    brokerName: deps.brokerName,
    pingMs,
    lifeMs: [settings.stream_life_seconds[0] * 1000, settings.stream_life_seconds[1] * 1000],
    limits: { queueKeys: settings.queue_keys, queueBytes: settings.queue_bytes, slowMs: settings.slow_seconds * 1000 },
    streamsMax: settings.streams_max,
    onClosed: () => undefined,
  }

  return {
    wake: createWaker({ sql: database, log, channel, onWake: reader.wake }),
    trouble,
    readCursor: (text) => (reader.view === null ? null : readCursor(reader.view.cursorKey, text)),
    openWatch: (answer, wish) => {
      refuseWhenDraining()
      requireView(reader.view, trouble())
      watches.open(answer(), wish)
    },
    get streams() {
      return registry.size
    },
    openStream: (answer, who, wished) => {
      refuseWhenDraining()
      return openStream(opening, requireView(reader.view, trouble()), answer, who, wished)
    },
    drain: () => {
      isDraining = true
      watches.closeAll()
      return drainStreams({ clock, registry, view: () => reader.view }, { perSecond: settings.drain_per_second })
    },
    stop: async () => {
      ticker.stop()
      await farEnd.stop()
      await listener.stop()
      await reader.stop()
      await sessions.stop()
    },
  }
}

function requireView(view: FeedView | null, trouble: ReturnType<Feed['trouble']>): FeedView {
  if (view !== null && trouble === null) return view
  throw new ApiError('feed_unavailable', `the change feed is ${trouble ?? 'starting'}: try again`, { retryAfterSeconds: 2 })
}

function tickStream(stream: AgentStream, view: FeedView | null, pingMs: number, isStale: boolean): void {
  // A moved cursor says "we are here" as well as a ping does, and keeps the follower's place in the log fresh.
  if (view !== null && !isStale && (stream.idleMs() >= pingMs || stream.isPollOver())) stream.bookmark(view.cursorText, view.cursor)
  stream.tick(pingMs, isStale)
}

function startTicker(clock: Clock, everyMs: number, run: () => void): { stop(): void } {
  let timer = clock.setTimer(everyMs, again)
  function again(): void {
    run()
    timer = clock.setTimer(everyMs, again)
  }
  return { stop: () => timer.cancel() }
}
