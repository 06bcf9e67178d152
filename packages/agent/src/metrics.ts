// What the agent counts, by the names operators know. Made once per agent, so that two agents in one process do not share numbers.
import type { Metrics } from '@brokkr/runtime/metrics.ts'

export type AgentMetrics = ReturnType<typeof agentMetrics>
const kubeOperations = ['get', 'list', 'create', 'replace', 'patch', 'apply', 'dry_run', 'delete', 'watch'] as const
export type KubeOperation = (typeof kubeOperations)[number]

export function agentMetrics(metrics: Metrics) {
  return {
    heartbeats: metrics.counter('brokkr_agent_heartbeat_sent_total', 'Heartbeats the broker has answered'),
    polls: metrics.counter('brokkr_agent_poll_requests_total', 'Polls of the target state by result', ['status']),
    pollSeconds: metrics.histogram('brokkr_agent_poll_duration_seconds', 'Duration of a poll of the target state'),
    lastPoll: metrics.gauge(
      'brokkr_agent_last_successful_poll_timestamp',
      'When the target state was last known to be current, in Unix seconds',
    ),
    session: metrics.gauge('brokkr_agent_session_state', '1 for the way by which the broker is followed now', ['transport']),
    lastFrame: metrics.gauge('brokkr_agent_last_frame_timestamp', 'When the last frame came, in Unix seconds'),
    framesIgnored: metrics.counter('brokkr_agent_frames_ignored_total', 'Frames without effect by reason', ['reason']),
    streamEnds: metrics.counter('brokkr_agent_stream_ends_total', 'Streams that ended, by how', ['how']),
    stacks: metrics.gauge('brokkr_agent_stacks', 'Stacks by phase', ['phase']),
    managed: metrics.gauge('brokkr_agent_managed_objects', 'Objects in the inventories of all stacks'),
    reconciles: metrics.histogram('brokkr_agent_reconcile_duration_seconds', 'Duration of an attempt on a stack by result', ['result']),
    applies: metrics.counter('brokkr_agent_apply_total', 'Objects by what an apply did to them', ['operation', 'result']),
    prunes: metrics.counter('brokkr_agent_prune_total', 'Objects by what a prune did to them', ['result']),
    pruneHeld: metrics.gauge('brokkr_agent_prune_held', 'Stacks whose removal waits for an approval'),
    superseded: metrics.counter('brokkr_agent_superseded_total', 'Attempts ended early because something newer came'),
    drifts: metrics.counter('brokkr_agent_drift_total', 'Members that another hand had touched, by what came of it', ['result']),
    spooled: metrics.gauge('brokkr_agent_events_spooled', 'Events that wait for the broker'),
    eventsLost: metrics.counter('brokkr_agent_events_lost_total', 'Events given up or folded into a later one, by reason', ['reason']),
    propagation: metrics.histogram('brokkr_agent_propagation_seconds', 'From the submission of a revision until it was applied here'),
    // Bound to their labels once: each call is counted and timed, and looking labels up costs more than that.
    kubeOperations: ofEach((operation) =>
      metrics.counter('brokkr_agent_kubernetes_operations_total', 'Calls to the API server', ['operation']).labels({ operation }),
    ),
    kubeSeconds: ofEach((operation) =>
      metrics.tally('brokkr_agent_kubernetes_operation_duration_seconds', 'Duration of calls to the API server', { operation }),
    ),
    lagSequences: metrics.gauge('brokkr_agent_lag_sequences', 'Revisions that are wanted and not applied, over all stacks'),
    lagSeconds: metrics.gauge('brokkr_agent_lag_seconds', 'Age of the oldest revision that is wanted and not applied'),
    frozen: metrics.gauge('brokkr_agent_frozen', '1 while the broker refuses the key and nothing is written'),
    holder: metrics.gauge('brokkr_agent_lease_held', '1 while this process holds the Lease'),
    workOrders: metrics.counter('brokkr_agent_work_orders_total', 'Work orders carried out', ['type', 'result']),
    telemetryDropped: metrics.counter('brokkr_agent_telemetry_dropped_total', 'Log lines and events that were not sent', ['reason']),
    unsaved: metrics.gauge('brokkr_agent_manifest_unsaved', 'Stacks whose manifest is too large to be kept in the cluster'),
  }
}

const ofEach = <T>(make: (operation: KubeOperation) => T): Record<KubeOperation, T> =>
  Object.fromEntries(kubeOperations.map((operation) => [operation, make(operation)])) as Record<KubeOperation, T>
