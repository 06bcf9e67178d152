// The feed of one process, put together: reader, listener, open streams and watches, and the clock that pings them.
// Everything that opens here is closed by stop().
import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { ApiError } from '@brokkr/contract/error.ts'
import { uniform } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { collectGarbage } from '@brokkr/runtime/collect-garbage.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { startLoop } from '@brokkr/runtime/loop.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import { feedChannel } from '../domain/feed-channel.ts'
import type { RevisionTexts } from '../revision-texts.ts'
import type { ChangeRow } from '../store/change-log.ts'
import type { Database } from '../store/db.ts'
import * as feedState from '../store/feed-state.ts'
import type { Sql } from '../store/sql.ts'
import { createAdmission } from './admission.ts'
import { tidyAfterCrowd } from './after-crowd.ts'
import type { AgentStream } from './agent-stream.ts'
import { startCanary } from './canary.ts'
import { type Cursor, readCursor, type Snapshot } from './cursor.ts'
import { drainStreams } from './drain.ts'
import { farEndCheck } from './far-end.ts'
import { createFeedMetrics, type FeedMetrics } from './feed-metrics.ts'
import type { FeedSettings } from './feed-settings.ts'
import { createWaker, startListener } from './listener.ts'
import { createNeighbours } from './neighbours.ts'
import { type AgentCaller, type OpenDeps, openStream, type StreamWish } from './open-stream.ts'
import { startOverloadGuard, watchPressure } from './overload.ts'
import { isProven, type PolledPlace, placeOf } from './polled-list.ts'
import { createPublisher } from './publish.ts'
import { type FeedView, startReader } from './reader.ts'
import { recheckKeys } from './recheck.ts'
import { Registry } from './registry.ts'
import { renewHistory } from './renew-history.ts'
import { Ring } from './ring.ts'
import { createSessions } from './sessions.ts'
import type { ByeReason, FrameStream } from './stream.ts'
import { createStreamMetrics } from './stream-metrics.ts'
import { createWatches, type WatchWish } from './watch.ts'

export interface FeedDeps {
  readonly database: Database
  /** Connections of their own for snapshots. */
  readonly snapshotSql: Sql
  readonly texts: RevisionTexts
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly schema: string
  readonly settings: FeedSettings
  /** Larger content is not sent. */
  readonly objectBytesMax: number
  readonly brokerName: string
  /** A credential changed or died: caches must let go of it. */
  readonly onCredential: (kind: string, id: string) => void
  /** Changes of credentials may have been missed: ask the database for each. */
  readonly onCredentialsInDoubt: () => void
  /** Work is due: `kind` is what it is done with. */
  readonly onTask: (kind: string) => void
}
export interface Feed {
  /** After a commit, of this stack if it is of one: wakes our own reader and every other process. */
  readonly wake: (stackId?: string) => void
  /** Grants may be cached only while the feed is read; null: it is, else why not. */
  trouble(): 'starting' | 'stale' | 'not primary' | null
  readonly readCursor: (text: string) => Cursor | null
  /** Before a polled list is read, and after it: see polled-list.ts. */
  placeOf(seen: string | undefined): PolledPlace | null
  isProven(place: PolledPlace): Promise<boolean>
  /** `answer` takes the response over once nothing can be refused any more. */
  openStream(answer: () => ServerResponse, who: AgentCaller, wished: StreamWish): Promise<void>
  openWatch(answer: () => ServerResponse, wish: WatchWish): Promise<void>
  /** What reports tell of the way of changes. */
  readonly metrics: Pick<FeedMetrics, 'checked' | 'nack' | 'propagated'>
  readonly streams: number
  /** Nothing new; every stream gets a bye and its place. The reader goes on until stop(). */
  drain(): Promise<void>
  stop(): Promise<void>
}

export function startFeed(deps: FeedDeps): Feed {
  const { database, clock, log, settings } = deps
  const registry = new Registry<AgentStream>()
  const ring = new Ring({ rowsMax: settings.ring_rows, ageMs: settings.ring_seconds * 1000 })
  const admission = createAdmission({ slots: settings.snapshots, waitingMax: settings.snapshots_waiting }, () => crowd.left())
  const crowd = tidyAfterCrowd({ clock, isBusy: () => admission.active > 0, tidy: collectGarbage })
  const channel = feedChannel(deps.schema)
  const pingMs = settings.ping_seconds * 1000
  const everybody = (): FrameStream[] => [...registry.all(), ...watches.all()]
  const closeAll = (reason: ByeReason, spreadMs: number) => {
    for (const stream of everybody()) stream.end(reason, uniform(0, spreadMs))
  }
  const onControl = (row: ChangeRow) => {
    if (row.object_kind === 'canary') return feedMetrics.canary(row.age_seconds ?? 0)
    if (row.object_id === null) return
    deps.onCredential(row.object_kind, row.object_id)
    watches.closeOf(`${row.object_kind} ${row.object_id}`)
    if (row.object_kind === 'agent') for (const stream of registry.all()) if (stream.agentId === row.object_id) stream.end('revoked', 0)
  }
  const content = { inlineBytes: settings.inline_bytes, objectBytesMax: deps.objectBytesMax }
  const publisher = createPublisher({
    sql: database,
    clock,
    texts: deps.texts,
    log,
    registry,
    ring,
    content,
    onControl,
    onTask: (row) => deps.onTask(row.object_kind),
    onAnyRow: (row) => watches.offer(row),
    onWritten: (ageSeconds) => feedMetrics.propagated('written', ageSeconds),
    onPublished: (read) => watches.published(read),
  })
  /** Whatever this process knows from what it has read is in doubt; followers come back and are given what they lack. */
  const startOver = (reason: ByeReason, spreadMs: number) => {
    ring.clear(publisher.nextBatch, null)
    deps.onCredentialsInDoubt()
    closeAll(reason, spreadMs)
  }
  const reader = startReader({
    connect: database.connect,
    publisher,
    clock,
    log,
    pollMs: () => settings.poll_ms,
    onBegin: (start: Snapshot) => ring.clear(publisher.nextBatch, start),
    onNewEpoch: () => {
      feedMetrics.newEpoch()
      startOver('epoch', 30_000)
    },
    onGone: () => {
      log.warn('the change log was cleaned past what this process had read: its streams start over')
      startOver('stale', 10_000)
    },
    onPolled: (poll) => feedMetrics.polled(poll),
    renewEpoch: (seen) => renewHistory({ sql: database, log }, seen),
  })
  const processId = randomUUID()
  const sessions = createSessions({ sql: database, clock, log, processId })
  const [testEvery, testLimit] = settings.listener_test_seconds
  const neighbours = createNeighbours({
    clock,
    processId,
    testEveryMs: testEvery * 1000,
    isListening: () => listener.isUp,
    onNew: () => wake(),
  })
  const listener = startListener({
    connect: database.connect,
    sql: database,
    clock,
    log,
    channel,
    processId,
    onWake: () => reader.wake(),
    onHeard: neighbours.heard,
    testEveryMs: testEvery * 1000,
    testLimitMs: testLimit * 1000,
  })

  const feedMetrics = createFeedMetrics(deps, {
    view: () => reader.view,
    isListenerUp: () => listener.isUp,
    oldestTransactionSeconds: async () => (await feedState.oldestTransaction(database, {})).age_seconds,
  })
  const streamMetrics = createStreamMetrics(deps.metrics, {
    streams: () => ({ agent: registry.all(), watch: watches.all() }),
    snapshots: () => admission,
  })
  const wake = createWaker({ sql: database, clock, log, channel, processId, onWake: reader.wake, isAlone: neighbours.isAlone })
  const canary = startCanary({ sql: database, clock, log, wake }, { processId, everyMs: settings.canary_seconds * 1000 })

  const ageMs = () => (reader.view === null ? Number.POSITIVE_INFINITY : clock.monotonicMs() - reader.view.polledAtMs)
  const trouble = (): ReturnType<Feed['trouble']> => {
    if (reader.view === null) return 'starting'
    if (reader.view.isStandby) return 'not primary'
    return ageMs() > settings.stale_seconds[0] * 1000 ? 'stale' : null
  }
  const opening: OpenDeps = {
    sql: database,
    snapshotSql: deps.snapshotSql,
    texts: deps.texts,
    publisher,
    registry,
    ring,
    content,
    wakeReader: reader.wake,
    onRingHit: () => feedMetrics.ringHit(),
    onFutureCursor: reader.doubt,
    clock,
    log,
    metrics: streamMetrics,
    admission,
    brokerName: deps.brokerName,
    pingMs,
    lifeMs: [settings.stream_life_seconds[0] * 1000, settings.stream_life_seconds[1] * 1000],
    limits: { queueKeys: settings.queue_keys, queueBytes: settings.queue_bytes, slowMs: settings.slow_seconds * 1000 },
  }
  const watches = createWatches(opening)

  let isDraining = false
  const pressure = watchPressure()
  const overloadLimits = { loopDelayMs: settings.loop_delay_ms, memory: settings.memory_share }
  const overload = startOverloadGuard({ everybody, measure: pressure.measure, log }, overloadLimits)
  /** What any new stream must pass. */
  const admit = (): FeedView => {
    if (isDraining) throw new ApiError('draining', 'this broker is going down: connect again', { retryAfterSeconds: 1 })
    const view = requireView(reader.view, trouble())
    if (overload.isRefusing() || everybody().length >= settings.streams_max)
      throw new ApiError('overloaded', 'this broker has as many streams as it can serve: try again', {
        retryAfterSeconds: Math.round(uniform(1, 10)),
      })
    return view
  }
  const ticker = startTicker(clock, Math.min(1000, pingMs / 4), () => {
    const isStale = trouble() !== null
    if (ageMs() > settings.stale_seconds[1] * 1000 && reader.view !== null) closeAll('stale', 10_000)
    // Not everybody(): two lists of all streams are not built each second. One that ends here takes itself out, which a map allows.
    for (const stream of registry.followers()) tickStream(stream, reader.view, pingMs, isStale)
    for (const watch of watches.all()) tickStream(watch, reader.view, pingMs, isStale)
    sessions.tick(registry.changes, () => Array.from(registry.followers(), (stream) => stream.agentId))
  })
  const relief = startTicker(clock, 1000, overload.tick)
  const farEnd = startLoop({ clock, log }, farEndCheck({ sql: database, clock, registry, trouble }, settings))
  const recheck = startLoop({ clock, log }, recheckKeys({ sql: database, registry }, settings), { jitter: 0.2 })

  return {
    wake,
    trouble,
    metrics: feedMetrics,
    readCursor: (text) => (reader.view === null ? null : readCursor(reader.view.cursorKey, text)),
    placeOf: (seen) => placeOf(reader.view, seen),
    isProven: (place) => isProven({ sql: database, doubt: reader.doubt }, place),
    openWatch: async (answer, wish) => {
      admit()
      await watches.open(admit, answer, wish)
    },
    get streams() {
      return registry.size
    },
    openStream: (answer, who, wished) => openStream(opening, admit(), answer, who, wished),
    drain: () => {
      isDraining = true
      return drainStreams({ clock, streams: everybody, view: () => reader.view }, { perSecond: settings.drain_per_second })
    },
    stop: async () => {
      ticker.stop()
      crowd.stop()
      relief.stop()
      pressure.stop()
      await recheck.stop()
      await farEnd.stop()
      await canary.stop()
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

function tickStream(stream: FrameStream, view: FeedView | null, pingMs: number, isStale: boolean): void {
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
