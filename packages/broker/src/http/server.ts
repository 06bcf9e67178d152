// The broker's listener. It answers probes from its first moment; calls are served once `goLive` has handed over handlers
// and database. One endpoint table, one function per call (serve.ts), one place that maps errors (errors.ts).
import type { AddressInfo, Socket } from 'node:net'
import { Server as TlsServer } from 'node:tls'
import { endpoints } from '@brokkr/contract/endpoints.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import type { FastifyInstance } from 'fastify'
import { guardConnections } from './connections.ts'
import type { CorsSettings } from './cors.ts'
import { answerTheRest, prepareEveryRequest, refuseBadPath } from './every-request.ts'
import { createApp } from './listener.ts'
import { mountEndpoints } from './mount-endpoints.ts'
import type { PageHandler } from './not-found.ts'
import { createOverload, type Load, type OverloadLimits, overloadLimits } from './overload.ts'
import { rules } from './permit.ts'
import { mountPlainRoutes } from './plain-routes.ts'
import type { Live } from './serve.ts'
import { followTlsFiles, type TlsFiles, type TlsMaterial } from './tls-files.ts'

export interface HttpDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** Asked once the broker is live: null when it may be given work, else the reason in a word or two. */
  readonly ready: () => Promise<string | null> | string | null
  /** Answers every unknown path outside /api. */
  readonly page: PageHandler
  /** How busy the process is; left out, nobody is refused for it. */
  readonly load?: Load
}

export interface HttpOptions {
  readonly host: string
  readonly port: number
  readonly version: string
  readonly trustedProxies?: readonly string[]
  /** By which browsers reach this broker: https where it, or somebody in front, does TLS. */
  readonly scheme?: 'http' | 'https'
  /** False where metrics have a port of their own. */
  readonly serveMetrics?: boolean
  readonly limits?: Partial<HttpLimits>
  readonly overload?: Partial<OverloadLimits>
  /** Asked for every request, so that a change takes effect at once; left out: no foreign origin. */
  readonly cors?: () => CorsSettings
  /** TLS of its own; left out: plain HTTP. */
  readonly tls?: TlsFiles | null
}
export interface HttpLimits {
  readonly headerMs: number
  readonly bodyMs: number
  readonly handlerMs: number
  readonly keepAliveMs: number
  readonly bodyBytes: number
  readonly objectBodyBytes: number
  readonly connectionsMax: number
  /** Of one address, on which nobody has shown a valid key yet. */
  readonly unknownPerAddressMax: number
}
const defaultLimits: HttpLimits = {
  headerMs: 10_000,
  bodyMs: 30_000,
  handlerMs: 30_000,
  keepAliveMs: 65_000,
  bodyBytes: 2 * 1024 * 1024,
  objectBodyBytes: 8 * 1024 * 1024,
  connectionsMax: 25_000,
  unknownPerAddressMax: 256,
}

export interface HttpServer {
  readonly address: string
  readonly port: number
  /** From here on calls are served. Throws when handlers, rules and table do not name the same endpoints. */
  goLive<Deps>(live: Live<Deps>): void
  /** /readyz says `draining`, so that nobody sends new work; what comes is still served. */
  drain(): void
  /** Stops accepting, waits for calls under way, and after the grace cuts what is left. */
  close(graceMs?: number): Promise<void>
}

export async function startHttp(deps: HttpDeps, options: HttpOptions): Promise<HttpServer> {
  const limits = { ...defaultLimits, ...options.limits }
  const state: State = { live: null, isDraining: false }
  const trustedProxies = options.trustedProxies ?? []
  const tls = options.tls ?? null
  const app = createApp({ ...limits, trustedProxies, tls }, (request, reply) => refuseBadPath(deps, request, reply))
  const following = tls === null ? null : followTlsFiles(deps, tls, (material) => renewCertificate(app, material))
  const connections = guardConnections(deps, app.server, { perAddressMax: limits.unknownPerAddressMax, trustedProxies })
  const overload = createOverload({ ...deps, load: deps.load ?? calm }, { ...overloadLimits, ...options.overload })
  const perCall = {
    scheme: options.scheme ?? 'http',
    overload,
    accepted: (socket: Socket) => connections.accepted(socket),
    live: () => state.live,
  }
  prepareEveryRequest({ ...deps, cors: options.cors ?? (() => null) }, app)
  mountPlainRoutes({ ...deps, ready: () => readiness(state, deps.ready) }, app, {
    version: options.version,
    serveMetrics: options.serveMetrics ?? true,
  })
  mountEndpoints({ ...deps, ...perCall, limits }, app)
  answerTheRest({ ...deps, live: () => state.live }, app)
  await app.listen({ host: options.host, port: options.port })
  const { address, port } = app.server.address() as AddressInfo
  return {
    address,
    port,
    goLive: (live) => {
      checkComplete(Object.keys(live.handlers))
      state.live = live as Live<unknown>
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
  live: Live<unknown> | null
  isDraining: boolean
}

function readiness(state: State, ready: HttpDeps['ready']): ReturnType<HttpDeps['ready']> {
  if (state.isDraining) return 'draining'
  return state.live === null ? 'starting' : ready()
}

/** An endpoint without handler or rule, or a handler outside the table, must never serve. */
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
  // A connection kept alive falls idle when its call ends, which nobody announces.
  const sweep = setInterval(() => app.server.closeIdleConnections(), 50)
  try {
    await closed
  } finally {
    cut.cancel()
    clearInterval(sweep)
  }
}
