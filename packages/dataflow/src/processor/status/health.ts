// HTTP pages of the processor: /healthz, /readyz and /metrics as in every program, /livez for restarts, /progress for the operator.
import type { Progress } from '@brokkr/contract/dataflow/progress.ts'
import { type AdminServer, startAdminServer } from '@brokkr/runtime/admin-server.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'

export interface HealthDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}

/** The pipeline as the pages show it. */
export interface ObservedPipeline {
  readonly isReady: boolean
  /** null: alive. */
  readonly notAlive: string | null
  progress(about: { readonly pod: string; readonly version: string }): Progress
}

export interface HealthOptions {
  readonly host: string
  readonly port: number
  readonly pod: string
  readonly version: string
}

class Health {
  readonly #server: AdminServer
  readonly #eventLoop: EventLoopMonitor
  readonly #observed: { pipeline: ObservedPipeline | undefined }

  constructor(server: AdminServer, eventLoop: EventLoopMonitor, observed: { pipeline: ObservedPipeline | undefined }) {
    this.#server = server
    this.#eventLoop = eventLoop
    this.#observed = observed
  }

  get port(): number {
    return this.#server.port
  }

  /** Until this call the pages say that the flow is starting. */
  observe(pipeline: ObservedPipeline): void {
    this.#observed.pipeline = pipeline
  }

  async close(): Promise<void> {
    this.#eventLoop.stop()
    await this.#server.close()
  }
}

export async function startHealth(deps: HealthDeps, { host, port, pod, version }: HealthOptions): Promise<Health> {
  const observed: { pipeline: ObservedPipeline | undefined } = { pipeline: undefined }
  const eventLoop = monitorEventLoop(deps.clock)
  const server = await startAdminServer({
    host,
    port,
    metrics: deps.metrics,
    log: deps.log,
    ready: () => (observed.pipeline?.isReady === true ? null : 'the flow is starting or stopping'),
    pages: {
      '/livez': () => {
        const reason = eventLoop.findStandstill() ?? observed.pipeline?.notAlive ?? null
        return { status: reason === null ? 200 : 503, type: 'text/plain; charset=utf-8', text: reason ?? 'Alive' }
      },
      '/progress': () => {
        if (observed.pipeline === undefined) throw new Error('the flow is starting')
        return { status: 200, type: 'application/json', text: JSON.stringify(observed.pipeline.progress({ pod, version })) }
      },
    },
  })
  return new Health(server, eventLoop, observed)
}

export interface EventLoopMonitor {
  /** Why the process is not alive, or null. */
  findStandstill(): string | null
  stop(): void
}

const tickMs = 1_000
const standstillMs = 30_000
/** Longer than the time between two probes, so that a probe sees every standstill. */
const rememberMs = 60_000

/** Detects a blocked event loop: a timer tick that is 30 s late means that no other callback ran either. */
function monitorEventLoop(clock: Clock): EventLoopMonitor {
  let lastMs = clock.monotonicMs()
  let standstillAtMs = Number.NEGATIVE_INFINITY
  const check = () => {
    const nowMs = clock.monotonicMs()
    if (nowMs - lastMs >= standstillMs) standstillAtMs = nowMs
    lastMs = nowMs
  }
  let timer = clock.setTimer(tickMs, tick)
  function tick(): void {
    check()
    timer = clock.setTimer(tickMs, tick)
  }
  return {
    findStandstill: () => {
      check()
      return clock.monotonicMs() - standstillAtMs < rememberMs ? `the event loop stood still for ${standstillMs / 1000} s` : null
    },
    stop: () => timer.cancel(),
  }
}
