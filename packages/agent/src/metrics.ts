// The agent's metrics. Created once per agent, so that two agents in one process do not share values.
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'

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
      'Unix time of the last successful poll of the desired state, in seconds',
    ),
    session: metrics.gauge('brokkr_agent_session_state', '1 for the transport in use, 0 for the others', ['transport']),
    lastFrame: metrics.gauge('brokkr_agent_last_frame_timestamp', 'Unix time of the last received frame, in seconds'),
    framesIgnored: metrics.counter('brokkr_agent_frames_ignored_total', 'Number of frames without effect by reason', ['reason']),
    streamEnds: metrics.counter('brokkr_agent_stream_ends_total', 'Number of ended streams by end', ['how']),
    stacks: metrics.gauge('brokkr_agent_stacks', 'Number of stacks by phase', ['phase']),
    managed: metrics.gauge('brokkr_agent_managed_objects', 'Number of objects in the inventories of all stacks'),
    reconciles: metrics.histogram('brokkr_agent_reconcile_duration_seconds', 'Duration of an attempt on a stack by result', ['result']),
    applies: metrics.counter('brokkr_agent_apply_total', 'Number of applied objects by operation and result', ['operation', 'result']),
    prunes: metrics.counter('brokkr_agent_prune_total', 'Number of pruned objects by result', ['result']),
    pruneHeld: metrics.gauge('brokkr_agent_prune_held', 'Number of stacks whose removal waits for an approval'),
    superseded: metrics.counter('brokkr_agent_superseded_total', 'Number of attempts aborted by a newer desired state'),
    drifts: metrics.counter('brokkr_agent_drift_total', 'Number of drift checks by result', ['result']),
    spooled: metrics.gauge('brokkr_agent_events_spooled', 'Number of agent events that wait for the broker'),
    eventsLost: metrics.counter('brokkr_agent_events_lost_total', 'Number of agent events dropped or folded into a later one by reason', [
      'reason',
    ]),
    propagation: metrics.histogram(
      'brokkr_agent_propagation_seconds',
      'Time from the submission of a deployment object until it was applied',
    ),
    // Bound to their labels once, because a lookup costs more than the measurement.
    kubeOperations: ofEach((operation) =>
      metrics
        .counter('brokkr_agent_kubernetes_operations_total', 'Number of requests to the API server', ['operation'])
        .labels({ operation }),
    ),
    kubeSeconds: ofEach((operation) =>
      metrics.tally('brokkr_agent_kubernetes_operation_duration_seconds', 'Duration of requests to the API server', { operation }),
    ),
    lagSequences: metrics.gauge('brokkr_agent_lag_sequences', 'Number of desired deployment objects that are not applied'),
    lagSeconds: metrics.gauge('brokkr_agent_lag_seconds', 'Age of the oldest desired deployment object that is not applied'),
    frozen: metrics.gauge('brokkr_agent_frozen', '1 while the broker refuses the PAK and the agent writes nothing'),
    holder: metrics.gauge('brokkr_agent_lease_held', '1 while this process holds the Lease'),
    workOrders: metrics.counter('brokkr_agent_work_orders_total', 'Number of executed work orders by type and result', ['type', 'result']),
    plans: metrics.counter('brokkr_agent_plans_total', 'Number of reported plans by result', ['result']),
    telemetryDropped: metrics.counter('brokkr_agent_telemetry_dropped_total', 'Number of dropped log lines and events by reason', [
      'reason',
    ]),
    unsaved: metrics.gauge('brokkr_agent_manifest_unsaved', 'Number of stacks whose manifest is too large to be stored in the cluster'),
  }
}

const ofEach = <T>(make: (operation: KubeOperation) => T): Record<KubeOperation, T> =>
  Object.fromEntries(kubeOperations.map((operation) => [operation, make(operation)])) as Record<KubeOperation, T>
