// The change feed of one broker process: reader, notifications and streams, put together. Nothing runs before start(); stop() ends
// everything that start() began.
import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import type { Database, Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { type RunningLoop, startLoop } from '@brokkr/runtime/loop.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import type { ManifestCache } from '../deployments/manifest-cache.ts'
import { startNewEpoch } from './actions.ts'
import type { FeedSettings } from './feed-settings.ts'
import { writeCanaries } from './reader/canary.ts'
import { type Cursor, parseCursor } from './reader/cursor.ts'
import { createFeedEvents, type FeedEvents } from './reader/feed-events.ts'
import { createFeedMetrics, type FeedMetrics } from './reader/feed-metrics.ts'
import { createNotifications } from './reader/notifications.ts'
import { getListPosition, isListOfEpoch, type ListPosition } from './reader/polled-list.ts'
import { createPublisher } from './reader/publisher.ts'
import { FeedReader, type FeedTrouble } from './reader/reader.ts'
import { Registry } from './reader/registry.ts'
import { RingBuffer } from './reader/ring-buffer.ts'
import { toNotifyChannel } from './rules.ts'
import type { ChangeRow } from './store/change-log.ts'
import * as feedState from './store/feed-state.ts'
import type { AgentStream } from './streams/agent-stream.ts'
import type { ByeReason } from './streams/frame-stream.ts'
import type { CallingAgent, StreamRequest } from './streams/open-stream.ts'
import { createStreams, type Streams } from './streams/streams.ts'
import type { WatchRequest } from './streams/watch.ts'

export interface ChangeFeedDeps {
  readonly database: Database
  /** A separate connection pool for snapshots. */
  readonly snapshotSql: Sql
  readonly texts: ManifestCache
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly schema: string
  readonly settings: FeedSettings
  /** Larger manifests are not sent. */
  readonly objectBytesMax: number
  readonly brokerName: string
}
export interface ChangeFeed {
  /** Call after a commit, with the stack if the commit changed one: wakes the local reader and those of other brokers. */
  readonly wake: (stackId?: string) => void
  /** Why the feed cannot be trusted; null if it can. Grants may be cached only while it can. */
  getTrouble(): FeedTrouble | null
  readonly readCursor: (text: string) => Cursor | null
  /** Call these two before and after a polled list is read: see polled-list.ts. */
  getListPosition(seen: string | undefined): ListPosition | null
  isListOfEpoch(position: ListPosition): Promise<boolean>
  /** Calls `takeResponse` once the request can no longer be refused. */
  openStream(takeResponse: () => ServerResponse, agent: CallingAgent, request: StreamRequest): Promise<void>
  openWatch(takeResponse: () => ServerResponse, request: WatchRequest): Promise<void>
  readonly metrics: Pick<FeedMetrics, 'recordDigestCheck' | 'recordNack' | 'recordPropagation'>
  readonly streamCount: number
  /** Whether the agent has an open stream in this process. */
  hasStream(agentId: string): boolean
  /** A task of this kind has work. */
  onTask(listener: (kind: string) => void): void
  /** A change row was read, before its frames are queued. */
  onChange(listener: (row: ChangeRow) => void): void
  /** A credential changed or was revoked: drop it from caches. */
  onCredentialChange(listener: (kind: string, id: string) => void): void
  /** Changes of credentials may have been missed: drop all of them from caches. */
  onCredentialsInDoubt(listener: () => void): void
  start(): void
  /** Refuses new streams and closes all open ones, each with a last bookmark. The reader runs until stop(). */
  drain(): Promise<void>
  stop(): Promise<void>
}

export function createChangeFeed(deps: ChangeFeedDeps): ChangeFeed {
  const { database, clock, log, settings } = deps
  // Create: no part runs yet.
  const processId = randomUUID()
  const events = createFeedEvents()
  const metrics = createFeedMetrics(deps)
  const registry = new Registry<AgentStream>()
  const ring = new RingBuffer({ rowsMax: settings.ring_rows, ageMs: settings.ring_seconds * 1000 })
  const content = { inlineBytes: settings.inline_bytes, objectBytesMax: deps.objectBytesMax }
  const publisher = createPublisher({ sql: database, clock, log, texts: deps.texts, registry, ring, content, events })
  const reader = new FeedReader(
    { connect: database.connect, publisher, events, clock, log, startNewEpoch: (seen) => startNewEpoch({ sql: database, log }, seen) },
    { pollMs: settings.poll_ms, staleMs: settings.stale_seconds[0] * 1000 },
  )
  const [testEverySeconds, testLimitSeconds] = settings.listener_test_seconds
  const notifications = createNotifications(
    { connect: database.connect, sql: database, clock, log, wakeReader: reader.wake },
    { channel: toNotifyChannel(deps.schema), processId, testEveryMs: testEverySeconds * 1000, testLimitMs: testLimitSeconds * 1000 },
  )
  const streams = createStreams({ ...deps, sql: database, processId, registry, ring, content, publisher, reader, feedMetrics: metrics })
  const canary = writeCanaries({ sql: database, log, wake: notifications.wake }, { processId, everyMs: settings.canary_seconds * 1000 })
  const loops: RunningLoop[] = []
  // Connect.
  connectMetrics(events, metrics)
  metrics.observe({
    view: () => reader.view,
    isListening: () => notifications.isListening,
    oldestTransactionSeconds: async () => (await feedState.oldestTransaction(database, {})).age_seconds,
  })
  connectStreams(events, streams)
  const restartStreams = (reason: ByeReason, spreadMs: number) => {
    ring.clear(publisher.nextBatch, null)
    events.emit('credentialsInDoubt')
    streams.closeAll(reason, spreadMs)
  }
  events.on('readingStarted', (from) => ring.clear(publisher.nextBatch, from))
  events.on('newEpoch', () => restartStreams('epoch', 30_000))
  events.on('rowsLost', () => {
    log.warn('unread change rows deleted, streams restarted')
    restartStreams('stale', 10_000)
  })
  return {
    ...connectListeners(events),
    wake: notifications.wake,
    getTrouble: () => reader.getTrouble(),
    metrics,
    readCursor: (text) => (reader.view === null ? null : parseCursor(reader.view.cursorKey, text)),
    getListPosition: (seen) => getListPosition(reader.view, seen),
    isListOfEpoch: (position) => isListOfEpoch({ sql: database, requestNewEpoch: reader.requestNewEpoch }, position),
    openStream: streams.openStream,
    openWatch: streams.openWatch,
    hasStream: streams.hasStream,
    get streamCount() {
      return registry.size
    },
    start: () => {
      reader.start()
      notifications.start()
      loops.push(startLoop({ clock, log }, canary))
      streams.start()
    },
    drain: streams.drain,
    stop: async () => {
      await streams.stop()
      await Promise.all(loops.map((loop) => loop.stop()))
      await notifications.stop()
      await reader.stop()
    },
  }
}

function connectMetrics(events: FeedEvents, metrics: FeedMetrics): void {
  events.on('polled', (result) => metrics.recordPoll(result))
  events.on('newEpoch', () => metrics.recordNewEpoch())
  events.on('putQueued', (ageSeconds) => metrics.recordPropagation('written', ageSeconds))
  events.on('row', (row) => {
    if (row.scope_kind === 'control' && row.object_kind === 'canary') metrics.recordCanary(row.age_seconds ?? 0)
  })
}

function connectStreams(events: FeedEvents, streams: Streams): void {
  events.on('row', streams.offerToWatches)
  events.on('published', streams.flushWatches)
  events.on('row', (row) => {
    if (isCredentialRow(row)) streams.closeByCredential(row.object_kind, row.object_id)
  })
}

const connectListeners = (events: FeedEvents): Pick<ChangeFeed, 'onTask' | 'onChange' | 'onCredentialChange' | 'onCredentialsInDoubt'> => ({
  onChange: (listener) => {
    events.on('row', listener)
  },
  onTask: (listener) => {
    events.on('row', (row) => {
      if (row.scope_kind === 'task') listener(row.object_kind)
    })
  },
  onCredentialChange: (listener) => {
    // Before the streams are closed: a client that reconnects at once must not find the old grant in a cache.
    events.prependListener('row', (row) => {
      if (isCredentialRow(row)) listener(row.object_kind, row.object_id)
    })
  },
  onCredentialsInDoubt: (listener) => {
    events.on('credentialsInDoubt', listener)
  },
})

const isCredentialRow = (row: ChangeRow): row is ChangeRow & { readonly object_id: string } =>
  row.scope_kind === 'control' && row.object_kind !== 'canary' && row.object_id !== null
