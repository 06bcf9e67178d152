// Composition of live sockets: agent sockets, live tails, the fleet view and the messages between processes.
import { randomUUID } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import type { Output } from '@brokkr/contract/endpoints.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { LogGap } from '@brokkr/contract/telemetry/telemetry.ts'
import type { Database } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { type RunningLoop, startLoop } from '@brokkr/runtime/loop.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import { type WebSocket, WebSocketServer } from 'ws'
import type { AuditEntry } from '../audit/record.ts'
import type { ResourceLookups } from '../auth/check-permit.ts'
import type { ChangeFeed } from '../change-feed/change-feed.ts'
import type { Authenticator } from '../http/authentication/authenticate.ts'
import { createProxyMatcher, toActor } from '../http/request/actor.ts'
import type { Seal } from '../seal.ts'
import { createTelemetryWriter } from '../telemetry/telemetry-writer.ts'
import type { SubscriptionCache } from '../webhooks/subscriptions/subscription-cache.ts'
import { createAgentSockets } from './agent-sockets.ts'
import { createBus } from './bus.ts'
import { createFleetLive } from './fleet-live.ts'
import { createLiveTail, type LiveTail } from './live-tail.ts'
import { createChangePusher } from './push-changes.ts'
import { chooseProtocol, isHandshake, nilId, toFrame } from './rules.ts'
import { SocketConnection } from './socket-connection.ts'
import { createSocketMetrics } from './socket-metrics.ts'
import * as liveStore from './store.ts'
import { checkHandshake, type Handshake, refuseHandshake } from './upgrade.ts'

export interface LiveSettings {
  readonly ping_seconds: number
  readonly dead_seconds: number
  readonly control_frames: number
  readonly telemetry_frames: number
  readonly telemetry_batch_rows: number
  readonly telemetry_batch_ms: number
  readonly connections_max: number
}
export interface LiveOptions {
  readonly settings: LiveSettings
  readonly schema: string
  readonly scheme: 'http' | 'https'
  readonly trustedProxies: readonly string[]
  /** Time within which the broker stops. */
  readonly graceMs: number
}
export interface LiveDeps {
  readonly sql: Database
  readonly seal: Seal
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly feed: ChangeFeed
  readonly authenticator: Authenticator
  readonly subscriptionCache: SubscriptionCache
  readonly wakeFeed: () => void
  readonly lookups: Pick<ResourceLookups, 'stack'>
  readonly recordAudit: (entry: AuditEntry) => void
}
export interface Live {
  readonly publish: LiveTail['publish']
  listConnections(): Promise<Output<'listWsConnections'>>
  /** Handles a WebSocket handshake; `accepted` is called once it is authenticated. */
  readonly upgrade: (request: IncomingMessage, socket: Duplex, head: Buffer, accepted: () => void) => void
  start(): void
  /** Refuses new sockets, closes open ones with 1001 (those that do not answer are cut) and stores the control frames that arrived. */
  drain(): Promise<void>
  stop(): Promise<void>
}

const frameBytesMax = 1024 * 1024
const listedMax = 10_000
const writerItemsMax = 20_000
const sessionRefreshMs = 30_000
const drainMs = 2_000

export function openLive(deps: LiveDeps, options: LiveOptions): Live {
  const { sql, clock, log } = deps
  const { settings } = options
  const isProxy = createProxyMatcher(options.trustedProxies)
  // Create: no part runs yet.
  const processId = randomUUID()
  const metrics = createSocketMetrics(deps.metrics)
  const limits = {
    laneFrames: { control: settings.control_frames, telemetry: settings.telemetry_frames },
    pingMs: settings.ping_seconds * 1000,
    deadMs: settings.dead_seconds * 1000,
  }
  const bus = createBus(deps, { schema: options.schema, processId, testEveryMs: 15_000, testLimitMs: 5_000 })
  const tail = createLiveTail({ ...deps, bus })
  const fleetLive = createFleetLive({ sql })
  const writer = createTelemetryWriter(deps, {
    batchRows: settings.telemetry_batch_rows,
    flushMs: settings.telemetry_batch_ms,
    perAgentMax: settings.telemetry_frames,
    totalMax: writerItemsMax,
    onStored: tail.publish,
    onDropped: (reason, count) => metrics.recordDrop(reason, count),
  })
  const sockets = createAgentSockets({ ...deps, metrics, bus, writer, limits, processId, onConnectionChange: fleetLive.touch })
  const pusher = createChangePusher({ ...deps, sockets })
  const server = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: frameBytesMax,
    perMessageDeflate: false,
    handleProtocols: chooseProtocol,
  })
  const connections = new Set<SocketConnection>()
  const loops: RunningLoop[] = []
  let isDraining = false
  metrics.observe({ agents: () => sockets.count, live: () => tail.subscriberCount, fleet: () => fleetLive.subscriberCount })
  // Connect.
  deps.feed.onChange((row) => {
    pusher.offer(row)
    if (row.scope_kind === 'agent' && row.object_kind === 'agent') fleetLive.touch(row.scope_id)
  })
  deps.feed.onCredentialsInDoubt(() => {
    for (const connection of connections) connection.close(restartCode)
  })
  const getRefusal = (): ApiError | null =>
    isDraining
      ? new ApiError('draining', 'this broker is shutting down: connect again', { retryAfterSeconds: 1 })
      : connections.size >= settings.connections_max
        ? new ApiError('overloaded', 'this broker cannot serve more sockets: connect again later', { retryAfterSeconds: 5 })
        : null

  /** Ends the connection with its credential, which is released when it closes. */
  const guard = (ws: WebSocket, connection: SocketConnection, { principal, credential }: Handshake, onClosed: () => void) => {
    connections.add(connection)
    credential.onRevoked = () => connection.close()
    const endsInMs = principal.endsAtMs === null ? null : principal.endsAtMs - clock.monotonicMs()
    const expiry = endsInMs === null ? null : clock.setTimer(Math.max(0, endsInMs), () => connection.close())
    ws.once('close', () => {
      connections.delete(connection)
      credential.release()
      expiry?.cancel()
      onClosed()
    })
  }
  const createSubscriber = (ws: WebSocket, stackId: string): SocketConnection => {
    const connection = new SocketConnection(ws, {
      clock,
      limits,
      buildGap: (_, { count, since }) => toFrame('log_gap', toConsumerGap(stackId, count, since)),
      onSent: (type) => metrics.recordMessage('out', type),
      onDropped: (lane) => metrics.recordDrop(`${lane}_full`),
      onClosed: () => undefined,
    })
    // Consumers have nothing to say.
    ws.on('message', () => metrics.recordDrop('unexpected'))
    return connection
  }
  /** Returns whether the socket was opened; throws the error that refuses it. */
  const open = async (handshake: Handshake, request: IncomingMessage, socket: Duplex, head: Buffer): Promise<boolean> => {
    const { path, principal, caller, credential } = handshake
    // The server refuses other headers. No session is opened for them, because it would replace that of the open socket.
    if (!isHandshake(request)) {
      server.handleUpgrade(request, socket, head, (ws) => ws.terminate())
      return false
    }
    const row = { agent_id: principal.id, process: processId }
    const session = path.is === 'agent' ? await liveStore.openSocket(sql, row) : null
    // The database may have answered late.
    const refusal = credential.isRevoked ? new ApiError('unauthorized', 'the key was revoked') : getRefusal()
    let isOpen = false
    const accept = (ws: WebSocket) => {
      isOpen = true
      if (session !== null) {
        const actor = toActor({ principal, ...caller })
        const connection = sockets.accept(ws, { actor, session: session.session, connectedSince: session.connected_since })
        guard(ws, connection, handshake, () => undefined)
      } else {
        const connection = createSubscriber(ws, path.is === 'stack' ? path.stackId : nilId)
        const unsubscribe = path.is === 'stack' ? tail.subscribe(path.stackId.toLowerCase(), connection) : fleetLive.subscribe(connection)
        guard(ws, connection, handshake, unsubscribe)
      }
    }
    // Calls back at once, or never if the client is gone.
    if (refusal === null) server.handleUpgrade(request, socket, head, accept)
    if (!isOpen && session !== null) await liveStore.closeSocket(sql, { ...row, session: session.session })
    if (refusal !== null) throw refusal
    return isOpen
  }
  const openHeld = async (handshake: Handshake, ...connection: [IncomingMessage, Duplex, Buffer]) => {
    let isOpen = false
    try {
      if (!connection[1].destroyed) isOpen = await open(handshake, ...connection)
    } finally {
      if (!isOpen) handshake.credential.release()
    }
  }
  const writeSessions = async () => {
    await sockets.refresh()
    await liveStore.putSubscribers(sql, { process: processId, stack: tail.subscriberCount, fleet: fleetLive.subscriberCount })
  }
  const tick = async () => {
    for (const connection of connections) {
      const reason = connection.tick()
      if (reason !== null) metrics.recordDrop(reason)
    }
  }
  return {
    publish: tail.publish,
    listConnections: async () => {
      const rows = await liveStore.listSockets(sql, { limit: listedMax })
      const own = new Map(sockets.list().map((socket) => [socket.agentId, socket.connection]))
      const others = await liveStore.countSubscribers(sql, { process: processId })
      const listed = rows.map(({ agent_id, process, connected_since, messages_in, messages_out }) => {
        const connection = process === processId ? own.get(agent_id) : undefined
        return {
          agent_id,
          connected_since,
          messages_in: connection?.messagesIn ?? messages_in,
          messages_out: connection?.messagesOut ?? messages_out,
        }
      })
      return { connected_agents: listed.length, connections: listed, live_subscribers: tail.subscriberCount + others.stack }
    },
    upgrade: (request, socket, head, accepted) => {
      const onError = () => socket.destroy()
      socket.on('error', onError)
      checkHandshake({ ...deps, scheme: options.scheme, isProxy, getRefusal }, request)
        .then((handshake) => {
          accepted()
          return openHeld(handshake, request, socket, head)
        })
        .then(() => socket.off('error', onError))
        .catch((error: unknown) => refuseHandshake({ log }, socket, error, request))
    },
    start: () => {
      bus.start({
        onInterrupted: tail.announceInterruption,
        onMessage: (message) => {
          if (message.is === 'telemetry') tail.receiveRows(message.rows, message.stackIds)
          else if (message.is === 'gaps') tail.receiveGaps(message.gaps)
          else {
            if (message.is === 'socket') sockets.evict(message.agentId, message.session)
            fleetLive.touch(message.agentId)
          }
        },
      })
      const everyTickMs = Math.min(1_000, limits.pingMs / 4)
      loops.push(startLoop({ clock, log }, { name: 'socket-pings', everyMs: everyTickMs, run: tick }))
      loops.push(startLoop({ clock, log }, { name: 'socket-sessions', everyMs: sessionRefreshMs, run: writeSessions }))
      for (const loop of fleetLive.loops) loops.push(startLoop({ clock, log }, loop))
    },
    drain: async () => {
      isDraining = true
      for (const connection of connections) connection.close(goingAwayCode)
      const endMs = clock.monotonicMs() + drainMs
      while (connections.size > 0 && clock.monotonicMs() < endMs) await clock.sleep(20)
      for (const connection of connections) connection.terminate()
      // The rest of the grace time is for the parts that close later.
      await sockets.settle(options.graceMs / 3)
    },
    stop: async () => {
      await Promise.all(loops.map((loop) => loop.stop()))
      await writer.close()
      await bus.stop()
      await liveStore.removeProcess(sql, { process: processId }).catch(() => undefined)
    },
  }
}

const goingAwayCode = 1001
/** Service restart: the client reconnects. */
const restartCode = 1012

const toConsumerGap = (stackId: string, dropped_count: number, since: string) =>
  ({
    agent_id: nilId,
    stack_id: stackId,
    since_ts: since.replace('Z', '000Z'),
    dropped_count,
    reason: 'buffer_full',
  }) satisfies Record<keyof LogGap, unknown>
