// Hot settings that change intervals, rates or reports, but not the desired state. If only these change, no stack is reconciled.
const ofPace: ReadonlySet<string> = new Set([
  'agent.polling_interval',
  'agent.stream_dead_seconds',
  'agent.transport_retry_seconds',
  'agent.stack_concurrency',
  'agent.kube_in_flight',
  'agent.kube_qps',
  'agent.kube_burst',
  'agent.retry_max_seconds',
  'agent.attempt_seconds',
  'agent.apply_concurrency',
  'agent.resync_interval',
  'agent.verify_interval',
  'agent.deployment_health_interval',
  'agent.kube_events',
  'agent.pod_logs',
  'agent.pod_log_lines_per_second',
  'agent.kube_event_uid_cache_cap',
  'log.level',
])

export const affectsDesiredState = (paths: ReadonlySet<string>): boolean => [...paths].some((path) => !ofPace.has(path))
