// What `/health` answers: how the agent stands to its cluster and its broker, as JSON. 503 when something is wrong that a
// restart of the pod or a person should look at.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Follow } from './follow.ts'
import type { Standing } from './loops/standing.ts'
import { version } from './version.ts'

export interface HealthView {
  readonly clock: Clock
  readonly standing: Standing
  readonly startedAtMs: number
  readonly transport: () => Follow['transport']
  /** Generators that would not have us. */
  readonly refusedGenerators: () => readonly string[]
}

export function healthPage(view: HealthView): { status: number; body: Record<string, unknown> } {
  const { standing, clock } = view
  const problem = standing.notReady
  const body = {
    status: problem === null ? 'healthy' : 'unhealthy',
    ...(problem === null ? {} : { reason: problem }),
    kubernetes: { connected: standing.isClusterWell, ...(standing.clusterProblem === null ? {} : { error: standing.clusterProblem }) },
    broker: {
      connected: standing.isBrokerWell,
      ...(standing.lastHeartbeatMs === null ? {} : { last_heartbeat: new Date(standing.lastHeartbeatMs).toISOString() }),
      ...(standing.brokerProblem === null ? {} : { error: standing.brokerProblem }),
      transport: view.transport(),
      ...(view.refusedGenerators().length === 0 ? {} : { refused_generators: view.refusedGenerators() }),
    },
    agent_status: standing.status,
    uptime_seconds: Math.floor((clock.now() - view.startedAtMs) / 1000),
    version,
    timestamp: new Date(clock.now()).toISOString(),
  }
  return { status: problem === null ? 200 : 503, body }
}
