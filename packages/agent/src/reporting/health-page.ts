// The `/health` response: the agent's connections to its cluster and its broker, as JSON. Status 503 means that the pod should be
// restarted or an operator is needed.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { BrokerSync } from '../connection/broker-sync.ts'
import { version } from '../version.ts'
import type { AgentConditions } from './agent-conditions.ts'

export interface HealthSources {
  readonly transport: () => BrokerSync['transport']
  /** Generators that refused the agent's registration. */
  readonly refusedGenerators: () => readonly string[]
}

export class HealthPage {
  readonly #deps: { readonly clock: Clock; readonly conditions: AgentConditions }
  readonly #startedAtMs: number
  #sources: HealthSources = { transport: () => 'none', refusedGenerators: () => [] }

  constructor(deps: { readonly clock: Clock; readonly conditions: AgentConditions }) {
    this.#deps = deps
    this.#startedAtMs = deps.clock.now()
  }

  /** The page is served before these exist. */
  connect(sources: HealthSources): void {
    this.#sources = sources
  }

  render(): { status: number; body: Record<string, unknown> } {
    const { conditions, clock } = this.#deps
    const { notReadyReason, clusterProblem, brokerProblem, lastHeartbeatMs } = conditions
    const refusedGenerators = this.#sources.refusedGenerators()
    const body = {
      status: notReadyReason === null ? 'healthy' : 'unhealthy',
      ...(notReadyReason === null ? {} : { reason: notReadyReason }),
      kubernetes: { connected: conditions.isClusterReachable, ...(clusterProblem === null ? {} : { error: clusterProblem }) },
      broker: {
        connected: conditions.isBrokerReachable,
        ...(lastHeartbeatMs === null ? {} : { last_heartbeat: new Date(lastHeartbeatMs).toISOString() }),
        ...(brokerProblem === null ? {} : { error: brokerProblem }),
        transport: this.#sources.transport(),
        ...(refusedGenerators.length === 0 ? {} : { refused_generators: refusedGenerators }),
      },
      agent_status: conditions.status,
      uptime_seconds: Math.floor((clock.now() - this.#startedAtMs) / 1000),
      version,
      timestamp: new Date(clock.now()).toISOString(),
    }
    return { status: notReadyReason === null ? 200 : 503, body }
  }
}
