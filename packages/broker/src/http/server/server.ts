// The broker's HTTP server. It answers probes from the start; API requests are served once `goLive` provides handlers and database.
// One endpoint table, one function per request (serve.ts), one error mapping (errors.ts).
import type { IncomingMessage } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { Server as TlsServer } from 'node:tls'
import { endpoints } from '@brokkr/contract/endpoints.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import type { FastifyInstance } from 'fastify'
import { rules } from '../../auth/permissions.ts'
import type { RequestTracer } from '../../tracing/request-tracer.ts'
import { guardConnections } from './connections.ts'
import type { CorsSettings } from './cors.ts'
import { createApp } from './listener.ts'
import { mountEndpoints } from './mount-endpoints.ts'
import type { PageHandler } from './not-found.ts'
import { createOverload, type Load, type OverloadLimits, overloadLimits } from './overload.ts'
import { mountPlainRoutes } from './plain-routes.ts'
import { prepareEveryRequest, rejectBadPath, respondOutsideRoutes } from './request-hooks.ts'
import type { ServingContext } from './serve.ts'
import { type TlsFiles, type TlsMaterial, watchTlsFiles } from './tls-files.ts'

export interface HttpDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** Called once the broker is live: null if it is ready, else the reason. */
  readonly ready: () => Promise<string | null> | string | null
  /** Answers every unknown path outside /api. */
  readonly page: PageHandler
  /** Answers /docs; if absent, a list of the operations without a script. */
  readonly docs?: PageHandler | undefined
  /** Load of the process; if absent, no request is refused for overload. */
  readonly load?: Load
  /** Null or absent: requests are not traced. */
  readonly tracer?: RequestTracer | null
}

export interface HttpOptions {
  readonly host: string
  readonly port: number
  readonly version: string
  readonly trustedProxies?: readonly string[]
  /** Scheme by which browsers reach this broker: https if it or a proxy terminates TLS. */
  readonly scheme?: 'http' | 'https'
  /** False if metrics have their own port. */
  readonly serveMetrics?: boolean
  readonly limits?: Partial<HttpLimits>
  readonly overload?: Partial<OverloadLimits>
  /** Read for every request, so that a change takes effect at once; if absent, no other origin is allowed. */
  readonly cors?: () => CorsSettings
  /** Own TLS; null for plain HTTP. */
  readonly tls?: TlsFiles | null
}
export interface HttpLimits {
  readonly headerMs: number
  readonly bodyMs: number
  readonly handlerMs: number
  /** Time without progress after which a client that does not read its response is disconnected. */
  readonly answerStallMs: number
  readonly keepAliveMs: number
  readonly bodyBytes: number
  readonly objectBodyBytes: number
  readonly connectionsMax: number
  /** Per client address, without an authenticated request. */
  readonly unknownPerAddressMax: number
}
const defaultLimits: HttpLimits = {
  headerMs: 10_000,
  bodyMs: 30_000,
  handlerMs: 30_000,
  answerStallMs: 30_000,
  keepAliveMs: 65_000,
  bodyBytes: 2 * 1024 * 1024,
  objectBodyBytes: 8 * 1024 * 1024,
  connectionsMax: 25_000,
  unknownPerAddressMax: 256,
}

export type UpgradeHandler = (request: IncomingMessage, socket: Duplex, head: Buffer, accepted: () => void) => void

export interface HttpServer {
  readonly address: string
  readonly port: number
  /** Starts serving API requests. Throws if handlers, rules and endpoint table do not name the same endpoints. */
  goLive<Deps>(serving: ServingContext<Deps>): void
  /** Handles WebSocket handshakes; `accepted` is called once the handshake is authenticated. */
  onUpgrade(handle: UpgradeHandler): void
  /** /readyz reports `draining`; requests are still served. */
  drain(): void
  /** Stops accepting connections, waits for requests in progress, and closes the rest after the grace period. */
  close(graceMs?: number): Promise<void>
}

export async function startHttp(deps: HttpDeps, options: HttpOptions): Promise<HttpServer> {
  const limits = { ...defaultLimits, ...options.limits }
  const state: State = { serving: null, isDraining: false, upgrade: null }
  const trustedProxies = options.trustedProxies ?? []
  const tls = options.tls ?? null
  const edge = { ...deps, stallMs: limits.answerStallMs }
  const app = createApp({ ...limits, trustedProxies, tls }, (request, reply) => rejectBadPath(edge, request, reply))
  const following = tls === null ? null : watchTlsFiles(deps, tls, (material) => renewCertificate(app, material))
  const connections = guardConnections(deps, app.server, { perAddressMax: limits.unknownPerAddressMax, trustedProxies })
  const overload = createOverload({ ...deps, load: deps.load ?? calm }, { ...overloadLimits, ...options.overload })
  const perCall = {
    scheme: options.scheme ?? 'http',
    overload,
    accepted: (socket: Socket) => connections.accepted(socket),
    serving: () => state.serving,
  }
  prepareEveryRequest({ ...edge, cors: options.cors ?? (() => null) }, app)
  mountPlainRoutes({ ...deps, ready: () => readiness(state, deps.ready) }, app, {
    version: options.version,
    serveMetrics: options.serveMetrics ?? true,
  })
  mountEndpoints({ ...edge, ...perCall, limits, tracer: deps.tracer ?? null }, app)
  respondOutsideRoutes({ ...edge, serving: () => state.serving }, app)
  app.server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    if (state.upgrade === null) socket.destroy()
    else state.upgrade(request, socket, head, () => connections.accepted(request.socket))
  })
  await app.listen({ host: options.host, port: options.port })
  const { address, port } = app.server.address() as AddressInfo
  return {
    address,
    port,
    goLive: (serving) => {
      checkComplete(Object.keys(serving.handlers))
      state.serving = serving as ServingContext<unknown>
    },
    onUpgrade: (handle) => {
      state.upgrade = handle
    },
    drain: () => void (state.isDraining = true),
    close: (graceMs = 20_000) => {
      state.isDraining = true
      following?.stop()
      return closeGracefully(deps.clock, app, graceMs)
    },
  }
}

function renewCertificate(app: FastifyInstance, material: TlsMaterial): void {
  const server: object = app.server
  if (server instanceof TlsServer) server.setSecureContext(material)
}

const calm: Load = { delayMs: () => 0, poolWaitMs: () => 0 }

interface State {
  serving: ServingContext<unknown> | null
  isDraining: boolean
  /** Null until sockets can be opened. */
  upgrade: UpgradeHandler | null
}

function readiness(state: State, ready: HttpDeps['ready']): ReturnType<HttpDeps['ready']> {
  if (state.isDraining) return 'draining'
  return state.serving === null ? 'starting' : ready()
}

/** An endpoint without handler or rule, or a handler without endpoint, must never be served. */
function checkComplete(handlers: readonly string[]): void {
  const names = Object.keys(endpoints)
  const missing = names.filter((name) => !handlers.includes(name) || !(name in rules))
  const foreign = [...handlers, ...Object.keys(rules)].filter((name) => !names.includes(name))
  if (missing.length === 0 && foreign.length === 0) return
  const parts = [
    missing.length > 0 && `without handler or rule: ${missing.join(', ')}`,
    foreign.length > 0 && `not in the endpoint table: ${[...new Set(foreign)].join(', ')}`,
  ]
  throw new Error(`handlers, rules and endpoint table must name the same operations; ${parts.filter(Boolean).join('; ')}`)
}

async function closeGracefully(clock: Clock, app: FastifyInstance, graceMs: number): Promise<void> {
  const closed = app.close()
  const cut = clock.setTimer(graceMs, () => app.server.closeAllConnections())
  // A keep-alive connection becomes idle when its request ends, without an event.
  const sweep = setInterval(() => app.server.closeIdleConnections(), 50)
  try {
    await closed
  } finally {
    cut.cancel()
    clearInterval(sweep)
  }
}
