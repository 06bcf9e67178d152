// The feed of one process, put together: reader, listener, open streams and watches, and the clock that pings them.
// Everything that opens here is closed by stop().
import { randomUUID } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { ApiError } from '@brokkr/contract/error.ts'
import { uniform } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Seal } from '../seal.ts'
import type { ChangeRow } from '../store/change-log.ts'
import type { Database } from '../store/db.ts'
import * as feedState from '../store/feed-state.ts'
import { type Cursor, readCursor } from './cursor.ts'
import { frameBuffer } from './frames.ts'
import { createWaker, startListener } from './listener.ts'
import { createPublisher } from './publish.ts'
import { type FeedView, startReader } from './reader.ts'
import { Registry, scopeKey } from './registry.ts'
import { Ring } from './ring.ts'
import { createSessions } from './sessions.ts'
import { decideMode, startStream, type Wish } from './start.ts'
import { AgentStream, type ByeReason } from './stream.ts'
import { createWatches } from './watch.ts'

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
  openStream(
    answer: () => ServerResponse,
    who: { agentId: string; expiresAtMs: number | null },
    wish: { cursor: string | undefined; reason: string | undefined; holds: Wish['holds'] },
  ): Promise<void>
  openWatch(answer: () => ServerResponse, kinds: ReadonlySet<string>): void
  readonly streams: number
  /** Nothing new; every stream gets a bye and its place. The reader goes on until stop(). */
  drain(): void
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
    sessions.tick()
  })

  return {
    wake: createWaker({ sql: database, log, channel, onWake: reader.wake }),
    trouble,
    readCursor: (text) => (reader.view === null ? null : readCursor(reader.view.cursorKey, text)),
    openWatch: (answer, kinds) => {
      refuseWhenDraining()
      requireView(reader.view, trouble())
      watches.open(answer(), kinds)
    },
    get streams() {
      return registry.size
    },
    openStream: async (answer, who, wished) => {
      refuseWhenDraining()
      const view = requireView(reader.view, trouble())
      const cursor = wished.cursor === undefined ? null : readCursor(view.cursorKey, wished.cursor)
      if (wished.cursor !== undefined && cursor === null)
        throw new ApiError('bad_cursor', 'the cursor is not one of this broker: connect once without it')
      const wish: Wish = { cursor, reason: wished.reason ?? 'first', holds: wished.holds }
      const lifeMs = uniform(settings.stream_life_seconds[0] * 1000, settings.stream_life_seconds[1] * 1000)
      const endsAtMs = clock.monotonicMs() + Math.min(lifeMs, who.expiresAtMs === null ? lifeMs : who.expiresAtMs - clock.now())
      const { session } = await feedState.nextSession(database, {})
      const limits = { queueKeys: settings.queue_keys, queueBytes: settings.queue_bytes, slowMs: settings.slow_seconds * 1000 }
      const response = answer()
      const stream = new AgentStream(response, clock, {
        agentId: who.agentId,
        endsAtMs,
        limits,
        onClosed: (closed) => {
          registry.remove(closed)
          sessions.closed(closed.agentId)
        },
      })
      sessions.opened(who.agentId)
      // Known from its first moment, so that a revocation or a drain finds it while it still starts.
      registry.subscribe(stream, scopeKey('agent', who.agentId))
      const decided = decideMode(view, wish)
      response.writeHead(200, {
        'content-type': 'application/x-ndjson',
        'cache-control': 'no-store, no-transform',
        'x-accel-buffering': 'no',
      })
      await stream.write(
        frameBuffer({
          type: 'hello',
          protocol: 1,
          epoch: view.epoch,
          session,
          broker: deps.brokerName,
          ...decided,
          heartbeat_ms: Math.round(pingMs),
          lifetime_ms: Math.round(endsAtMs - clock.monotonicMs()),
          time: new Date(clock.now()).toISOString(),
        }),
      )
      try {
        await startStream(
          { sql: database, seal: deps.seal, publisher, registry, ring, inlineBytes: settings.inline_bytes, wakeReader: reader.wake },
          stream,
          view,
          wish,
          decided,
        )
      } catch (error) {
        log.warn('stream start failed', { agent_id: who.agentId, error: error as Error })
        stream.end('stale', uniform(500, 5000))
      }
    },
    drain: () => {
      isDraining = true
      closeAll('drain', 10_000)
      watches.closeAll()
    },
    stop: async () => {
      ticker.stop()
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
  if (view !== null && !isStale && stream.idleMs() >= pingMs) stream.bookmark(view.cursorText, view.cursor)
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
