// All open streams and watches of one broker process: admits new ones, pings open ones, and closes them when they are half-open,
// revoked, stale or too many.
import type { ServerResponse } from 'node:http'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { randomBetween } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { startLoop } from '@brokkr/runtime/loop.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import type { ManifestCache } from '../../deployments/manifest-cache.ts'
import type { FeedSettings } from '../feed-settings.ts'
import type { PublishedBatch } from '../reader/feed-events.ts'
import type { FeedMetrics } from '../reader/feed-metrics.ts'
import type { Publisher } from '../reader/publisher.ts'
import type { FeedReader, FeedView } from '../reader/reader.ts'
import { type Registry, scopeKey } from '../reader/registry.ts'
import type { RingBuffer } from '../reader/ring-buffer.ts'
import type { ChangeRow } from '../store/change-log.ts'
import { createAgentSessions } from './agent-sessions.ts'
import type { AgentStream } from './agent-stream.ts'
import { closeHalfOpenStreams, drainStreams, recheckCredentials } from './close-streams.ts'
import type { ByeReason, FrameStream } from './frame-stream.ts'
import type { ContentLimits } from './frames.ts'
import { type CallingAgent, type OpenStreamDeps, openStream, type StreamRequest } from './open-stream.ts'
import { createOverloadGuard, startTicker } from './overload-guard.ts'
import { createSnapshotAdmission, type SnapshotAdmission } from './snapshot-admission.ts'
import { createStreamMetrics, type StreamMetrics } from './stream-metrics.ts'
import { createWatches, type WatchRequest } from './watch.ts'

export interface StreamsDeps {
  readonly sql: Sql
  readonly snapshotSql: Sql
  readonly texts: ManifestCache
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly feedMetrics: Pick<FeedMetrics, 'recordRingHit'>
  readonly settings: FeedSettings
  readonly brokerName: string
  readonly processId: string
  readonly content: ContentLimits
  readonly registry: Registry<AgentStream>
  readonly ring: RingBuffer
  readonly publisher: Publisher
  readonly reader: FeedReader
}
export interface Streams {
  readonly openStream: (takeResponse: () => ServerResponse, agent: CallingAgent, request: StreamRequest) => Promise<void>
  readonly openWatch: (takeResponse: () => ServerResponse, request: WatchRequest) => Promise<void>
  readonly offerToWatches: (row: ChangeRow) => void
  readonly flushWatches: (batch: PublishedBatch) => void
  /** Closes the watches and agent streams that depend on the credential. */
  closeByCredential(kind: string, id: string): void
  /** `spreadMs`: clients are told to reconnect at random times within this period. */
  closeAll(reason: ByeReason, spreadMs: number): void
  readonly hasStream: (agentId: string) => boolean
  start(): void
  readonly drain: () => Promise<void>
  stop(): Promise<void>
}

export function createStreams(deps: StreamsDeps): Streams {
  const { sql, clock, log, settings, registry, reader } = deps
  const pingMs = settings.ping_seconds * 1000
  const metrics = createStreamMetrics(deps.metrics)
  const admission = createSnapshotAdmission({ slots: settings.snapshots, waitingMax: settings.snapshots_waiting })
  const opening = toOpenStreamDeps(deps, metrics, admission)
  const watches = createWatches(opening)
  const listAll = (): FrameStream[] => [...registry.listSubscribers(), ...watches.list()]
  const overloadLimits = { loopDelayMs: settings.loop_delay_ms, memory: settings.memory_share }
  const overload = createOverloadGuard({ clock, log, listStreams: listAll }, overloadLimits)
  const sessions = createAgentSessions({ sql, clock, log, processId: deps.processId })
  const running: { stop(): void | Promise<void> }[] = []
  let isDraining = false
  metrics.observe({ streams: () => ({ agent: registry.listSubscribers(), watch: watches.list() }), snapshots: () => admission })

  const closeAll: Streams['closeAll'] = (reason, spreadMs) => {
    for (const stream of listAll()) stream.end(reason, randomBetween(0, spreadMs))
  }
  /** Throws unless this process can serve another stream. */
  const admit = (): FeedView => {
    if (isDraining) throw new ApiError('draining', 'this broker is shutting down: connect again', { retryAfterSeconds: 1 })
    const view = requireFeedView(reader)
    if (overload.isRefusing() || listAll().length >= settings.streams_max)
      throw new ApiError('overloaded', 'this broker cannot serve more streams: connect again after the `Retry-After` time', {
        retryAfterSeconds: Math.round(randomBetween(1, 10)),
      })
    return view
  }
  const tick = () => {
    const { view } = reader
    const isStale = reader.getTrouble() !== null
    if (reader.getAgeMs() > settings.stale_seconds[1] * 1000 && view !== null) closeAll('stale', 10_000)
    // Not listAll(): it would build two lists of all streams each second.
    for (const stream of registry.iterateSubscribers()) tickStream(stream, view, pingMs, isStale)
    for (const watch of watches.list()) tickStream(watch, view, pingMs, isStale)
    sessions.tick(registry.subscriberChanges, () => Array.from(registry.iterateSubscribers(), (stream) => stream.agentId))
  }
  return {
    openStream: async (takeResponse, agent, request) => openStream(opening, admit(), takeResponse, agent, request),
    openWatch: async (takeResponse, request) => {
      admit()
      await watches.open(admit, takeResponse, request)
    },
    offerToWatches: watches.offer,
    flushWatches: watches.flushBookmarks,
    closeByCredential: (kind, id) => {
      watches.closeByCredential(`${kind} ${id}`)
      if (kind === 'agent') for (const stream of registry.listSubscribers()) if (stream.agentId === id) stream.end('revoked', 0)
    },
    closeAll,
    hasStream: (agentId) => registry.getSubscribers(scopeKey('agent', agentId)).size > 0,
    start: () => {
      running.push(startTicker(clock, Math.min(1000, pingMs / 4), tick), overload.start())
      running.push(startLoop({ clock, log }, closeHalfOpenStreams({ sql, clock, registry, reader }, settings)))
      running.push(startLoop({ clock, log }, recheckCredentials({ sql, registry, watches }, settings), { jitter: 0.2 }))
    },
    drain: () => {
      isDraining = true
      return drainStreams({ clock, listStreams: listAll, reader }, { perSecond: settings.drain_per_second })
    },
    stop: async () => {
      for (const part of running) await part.stop()
      await sessions.stop()
    },
  }
}

function toOpenStreamDeps(deps: StreamsDeps, metrics: StreamMetrics, admission: SnapshotAdmission): OpenStreamDeps {
  const { settings, reader } = deps
  const [lifeMinSeconds, lifeMaxSeconds] = settings.stream_life_seconds
  return {
    ...deps,
    metrics,
    admission,
    wakeReader: reader.wake,
    requestNewEpoch: reader.requestNewEpoch,
    onRingHit: deps.feedMetrics.recordRingHit,
    pingMs: settings.ping_seconds * 1000,
    lifeMs: [lifeMinSeconds * 1000, lifeMaxSeconds * 1000],
    limits: { queueKeys: settings.queue_keys, queueBytes: settings.queue_bytes, slowMs: settings.slow_seconds * 1000 },
  }
}

function requireFeedView(reader: FeedReader): FeedView {
  const { view } = reader
  const trouble = reader.getTrouble()
  if (view !== null && trouble === null) return view
  throw new ApiError('feed_unavailable', `the change feed is ${trouble ?? 'starting'}: try again`, { retryAfterSeconds: 2 })
}

function tickStream(stream: FrameStream, view: FeedView | null, pingMs: number, isStale: boolean): void {
  // Instead of a ping: a bookmark also shows that the stream is alive, and it moves the client's cursor forward.
  if (view !== null && !isStale && (stream.getIdleMs() >= pingMs || stream.isPollOver())) stream.bookmark(view.cursorText, view.cursor)
  stream.tick(pingMs, isStale)
}
