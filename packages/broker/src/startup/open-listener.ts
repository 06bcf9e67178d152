// Opens the port of the broker. The listener starts first, so that probes see a live process while it waits for its database; API
// requests are served after `goLive`.
import { startAdminServer } from '@brokkr/runtime/admin-server.ts'
import { watchEventLoopDelay } from '@brokkr/runtime/metrics/event-loop-delay.ts'
import { consoleDir } from '../assets.ts'
import { type BrokerConfig, listenHost, toTlsFiles } from '../config.ts'
import type { BrokerDeps } from '../deps.ts'
import { readConsole } from '../http/server/console-page.ts'
import type { ServingContext } from '../http/server/serve.ts'
import { type HttpServer, startHttp } from '../http/server/server.ts'
import type { RequestTracer } from '../tracing/request-tracer.ts'
import { version } from '../version.ts'
import type { StartContext } from './context.ts'

/** State of the process that the listener needs and that exists only once the database is open. */
export interface ProcessState {
  /** null if ready, else a short reason. */
  readonly ready: () => Promise<string | null>
  /** Longest current wait for a connection of the pool. */
  readonly poolWaitMs: () => number
}
export interface Listener extends Pick<HttpServer, 'drain' | 'close' | 'onUpgrade'> {
  readonly address: string
  readonly ready: ProcessState['ready']
  goLive(state: ProcessState, serving: ServingContext<BrokerDeps>): void
}

export async function openListener({
  config,
  clock,
  log,
  metrics,
  cookie,
  tracer,
  onClose,
}: StartContext & { readonly tracer: RequestTracer | null }): Promise<Listener> {
  let state: ProcessState = { ready: async () => 'starting', poolWaitMs: () => 0 }
  const ready = () => state.ready()
  const eventLoop = watchEventLoopDelay({ clock, metrics })
  onClose('event loop watch', () => eventLoop.stop())
  const tls = toTlsFiles(config)
  const load = { delayMs: () => eventLoop.ownP99Ms(), poolWaitMs: () => state.poolWaitMs() }
  const console = readConsole(consoleDir())
  const http = await startHttp(
    { clock, log, metrics, ready, page: console.page, docs: console.isBuilt ? console.page : undefined, load, tracer },
    {
      host: listenHost(config),
      port: config.server.port,
      version,
      trustedProxies: config.server.trusted_proxies,
      scheme: cookie.scheme,
      limits: toHttpLimits(config),
      overload: toOverloadLimits(config),
      cors: () => config.cors,
      tls,
      serveMetrics: config.metrics.port === null,
    },
  )
  return {
    address: `${tls === null ? 'http' : 'https'}://${http.address.includes(':') ? `[${http.address}]` : http.address}:${http.port}`,
    ready,
    goLive: (liveState, serving) => {
      state = liveState
      http.goLive(serving)
    },
    onUpgrade: (handle) => http.onUpgrade(handle),
    drain: () => http.drain(),
    close: (graceMs) => http.close(graceMs),
  }
}

/** Serves metrics and probes on metrics.port, if it is set. */
export async function openMetricsPort({ config, metrics, log, onClose }: StartContext, { ready }: Pick<Listener, 'ready'>): Promise<void> {
  const { port } = config.metrics
  if (port === null) return
  const admin = await startAdminServer({ host: listenHost(config), port, ready, metrics, log })
  onClose('metrics', () => admin.close())
}

const toHttpLimits = ({ limits }: BrokerConfig) => ({
  headerMs: limits.header_seconds * 1000,
  bodyMs: limits.body_seconds * 1000,
  handlerMs: limits.handler_seconds * 1000,
  answerStallMs: limits.answer_stall_seconds * 1000,
  bodyBytes: limits.body_bytes,
  objectBodyBytes: limits.object_body_bytes,
})

const toOverloadLimits = ({ limits }: BrokerConfig) => ({
  callsInProgress: limits.calls_in_progress,
  delayMs: limits.event_loop_delay_ms,
  poolWaitMs: limits.pool_wait_seconds * 1000,
})
