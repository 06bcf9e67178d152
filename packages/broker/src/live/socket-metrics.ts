// Metrics of live sockets. All series with bounded labels exist from the start.
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'

export interface SocketMetrics {
  recordMessage(direction: 'in' | 'out', type: string): void
  recordDrop(reason: string, count?: number): void
  observe(counts: { readonly agents: () => number; readonly live: () => number; readonly fleet: () => number }): void
}

const messageTypes = {
  in: ['heartbeat', 'agent_event', 'agent_health', 'k8s_event', 'pod_log_line', 'log_gap'],
  out: ['work_order', 'stack_changed', 'target_changed', 'k8s_event', 'pod_log_line', 'log_gap', 'fleet_update', 'gap'],
} as const

export function createSocketMetrics(metrics: Metrics): SocketMetrics {
  const messages = metrics.counter('brokkr_ws_messages_total', 'Number of WebSocket frames by direction and type', ['direction', 'type'])
  const drops = metrics.counter('brokkr_ws_dropped_total', 'Number of dropped WebSocket frames and ended connections by reason', ['reason'])
  const agents = metrics.gauge('brokkr_ws_connected_agents', 'Number of agents connected to this process by WebSocket')
  const live = metrics.gauge('brokkr_ws_live_subscribers', 'Number of open live tails of stacks')
  const fleet = metrics.gauge('brokkr_fleet_live_subscribers', 'Number of open live views of the fleet')
  for (const direction of ['in', 'out'] as const) for (const type of messageTypes[direction]) messages.inc({ direction, type }, 0)
  for (const reason of ['telemetry_full', 'lane_full', 'not_targeted']) drops.inc({ reason }, 0)
  return {
    recordMessage: (direction, type) => messages.inc({ direction, type }),
    recordDrop: (reason, count = 1) => drops.inc({ reason }, count),
    observe: (counts) =>
      metrics.beforeScrape(() => {
        agents.set(counts.agents())
        live.set(counts.live())
        fleet.set(counts.fleet())
      }),
  }
}
