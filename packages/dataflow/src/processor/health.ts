// The processor's pages: /healthz, /readyz, /metrics as every program has them, /livez for a process that should be restarted, and
// /progress for the operator.
import type { Progress } from '@brokkr/contract/dataflow/progress.ts'
import { type AdminServer, startAdminServer } from '@brokkr/runtime/admin-server.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'

export interface HealthDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** null: ready. */
  notReady(): string | null
  /** null: alive. */
  notAlive(): string | null
  progress(): Progress
}

export interface Health extends AdminServer {
  readonly loop: LoopWatch
}

export async function startHealth(deps: HealthDeps, options: { readonly host: string; readonly port: number }): Promise<Health> {
  const loop = watchLoop(deps.clock)
  const server = await startAdminServer({
    ...options,
    metrics: deps.metrics,
    log: deps.log,
    ready: () => deps.notReady(),
    pages: {
      '/livez': () => {
        const reason = loop.stoodStill() ?? deps.notAlive()
        return { status: reason === null ? 200 : 503, type: 'text/plain; charset=utf-8', text: reason ?? 'Alive' }
      },
      '/progress': () => ({ status: 200, type: 'application/json', text: JSON.stringify(deps.progress()) }),
    },
  })
  const close = async (): Promise<void> => {
    loop.stop()
    await server.close()
  }
  return { port: server.port, close, loop }
}

export interface LoopWatch {
  /** Why the process is not alive, or null. */
  stoodStill(): string | null
  stop(): void
}

const tickMs = 1_000
const stillMs = 30_000
/** How long a standstill is remembered: longer than the time between two probes. */
const rememberMs = 60_000

/** The event loop measures itself: a tick that comes late by half a minute means that nothing else ran either. */
export function watchLoop(clock: Clock): LoopWatch {
  let lastMs = clock.monotonicMs()
  let stillAtMs = Number.NEGATIVE_INFINITY
  const look = () => {
    const nowMs = clock.monotonicMs()
    if (nowMs - lastMs >= stillMs) stillAtMs = nowMs
    lastMs = nowMs
  }
  let timer = clock.setTimer(tickMs, tick)
  function tick(): void {
    look()
    timer = clock.setTimer(tickMs, tick)
  }
  return {
    stoodStill: () => {
      look()
      return clock.monotonicMs() - stillAtMs < rememberMs ? `the event loop stood still for ${stillMs / 1000} s` : null
    },
    stop: () => timer.cancel(),
  }
}
