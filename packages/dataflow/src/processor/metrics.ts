// The figures of one flow under their public names. Every series carries namespace and name; what is counted per message is bound
// once, so that counting costs next to nothing.
import type { Metrics } from '@brokkr/runtime/metrics.ts'

const factor2 = (first: number, count: number): number[] => Array.from({ length: count }, (_, at) => first * 2 ** at)

const base = ['namespace', 'name'] as const
const connector = [...base, 'connector_type', 'connector_name'] as const
const route = [...base, 'sink_type', 'route'] as const

export interface FlowLabels {
  readonly namespace: string
  readonly name: string
}

export type FlowMetrics = ReturnType<typeof flowMetrics>

export function flowMetrics(metrics: Metrics, flow: FlowLabels) {
  const { namespace, name } = flow
  const counter = <L extends string>(id: string, help: string, labels: readonly L[]) => metrics.counter(id, help, [...base, ...labels])
  const gauge = <L extends string>(id: string, help: string, labels: readonly L[] = []) => metrics.gauge(id, help, [...base, ...labels])
  const received = counter('dataflow_messages_received_total', 'Messages read', ['source_type'])
  const sent = metrics.counter('dataflow_messages_sent_total', 'Records after acknowledgement', route)
  const processing = metrics.tally(
    'dataflow_processing_duration_seconds',
    'Transform chain per message',
    { namespace, name },
    factor2(0.001, 10),
  )
  const read = metrics.counter('dataflow_connector_messages_read_total', 'As the connector confirms', connector)
  const written = metrics.counter('dataflow_connector_messages_written_total', 'As the connector confirms', [...connector, 'route'])
  const errors = metrics.counter('dataflow_connector_errors_total', 'Failed calls', [...connector, 'operation', 'error_type'])
  const connection = metrics.gauge('dataflow_connector_connection_status', '1 while connected', connector)
  const poll = metrics.gauge('dataflow_connector_source_poll_healthy', '1 while reading works', connector)
  const step = [...base, 'transformer_type', 'transformer_index'] as const
  const executions = metrics.counter('dataflow_transformer_executions_total', 'Messages a step was run on', step)
  const stepErrors = metrics.counter('dataflow_transformer_errors_total', 'Messages a step refused', [...step, 'error_type'])
  const stepIn = metrics.counter('dataflow_transformer_messages_in_total', 'Messages into a step', step)
  const stepOut = metrics.counter('dataflow_transformer_messages_out_total', 'Messages out of a step', step)
  const stepSeconds = metrics.histogram('dataflow_transformer_duration_seconds', 'Share of a step in the chain', step, factor2(0.0001, 12))
  const stage = [...base, 'stage'] as const
  const stageSeconds = metrics.histogram('dataflow_task_stage_duration_seconds', 'Work of a stage per batch', stage, factor2(0.0001, 14))
  const stageLatency = metrics.histogram(
    'dataflow_task_stage_latency_seconds',
    'From one stage to the next',
    [...base, 'from_stage', 'to_stage'],
    factor2(0.0001, 12),
  )
  const stageErrors = metrics.counter('dataflow_task_stage_errors_total', 'Failures by stage', [...stage, 'error_type'])
  const sizes = metrics.tally('dataflow_task_message_size_bytes', 'Payloads', { namespace, name, stage: 'read' }, factor2(64, 16))
  const throughput = gauge('dataflow_task_throughput_messages_per_second', 'Ended messages per second over 10 s')
  const success = gauge('dataflow_task_success_rate', 'Written of all ended over 10 s')
  const active = gauge('dataflow_task_active_messages', 'Messages read and not ended')
  const queue = gauge('dataflow_task_queue_size', 'Records that wait', ['queue_type'])
  const queueWait = metrics.histogram(
    'dataflow_task_queue_wait_time_seconds',
    'Wait before a flush',
    [...base, 'queue_type'],
    factor2(0.0001, 14),
  )
  const operations = counter('dataflow_task_operations_total', 'Reads, writes, commits, saves', ['operation', 'status'])
  const endToEnd = metrics.tally(
    'dataflow_task_end_to_end_latency_seconds',
    'Source time to acknowledgement',
    { namespace, name },
    factor2(0.005, 18),
  )
  const lag = gauge('dataflow_source_lag', 'Not yet read and committed', ['unit'])
  const letters = counter('dataflow_dead_letters_total', 'Dead letters', ['stage', 'error_type'])
  const dropped = counter('dataflow_messages_dropped_total', 'Dropped on purpose', ['reason'])
  const inflight = gauge('dataflow_inflight_bytes', 'Read and not yet ended')
  const batches = metrics.histogram('dataflow_sink_batch_size', 'Records of an acknowledged batch', route, factor2(1, 18))
  const age = gauge('dataflow_checkpoint_age_seconds', 'Since the last save')
  const blocked = gauge('dataflow_blocked', '1 while something holds the flow')
  const retained = gauge('dataflow_cdc_slot_retained_bytes', 'WAL that the slot keeps')
  const conflicts = metrics.counter('dataflow_conflicts_ignored_total', 'Rows that were there already', route)
  const collisions = counter('dataflow_key_collisions_total', 'Keys that became one', ['transformer_index'])
  const avoided = metrics.counter('dataflow_duplicates_avoided_total', 'Records at or below a high water', route)
  const objective = gauge('dataflow_lag_objective_seconds', 'Lag that alerts compare with')
  const status = gauge('dataflow_status', '1 for the current phase', ['phase'])
  return {
    received: (type: string) => received.labels(namespace, name, type),
    sent: (type: string, to: string) => sent.labels(namespace, name, type, to),
    processing,
    read: (type: string) => read.labels(namespace, name, type, 'source'),
    written: (type: string, to: string) => written.labels(namespace, name, type, to === 'errors' ? 'errors' : 'sink', to),
    connectorError: (type: string, at: string, operation: string, errorType: string) =>
      errors.inc({ namespace, name, connector_type: type, connector_name: at, operation, error_type: errorType }),
    connected: (type: string, at: string, isUp: boolean) =>
      connection.set({ namespace, name, connector_type: type, connector_name: at }, isUp ? 1 : 0),
    pollHealthy: (type: string, isUp: boolean) =>
      poll.set({ namespace, name, connector_type: type, connector_name: 'source' }, isUp ? 1 : 0),
    step: (type: string, index: number) => {
      const labels = [namespace, name, type, String(index)] as const
      return {
        executions: executions.labels(...labels),
        in: stepIn.labels(...labels),
        out: stepOut.labels(...labels),
        seconds: stepSeconds.labels(...labels),
        error: (errorType: string, count: number) => stepErrors.labels(...labels, errorType).inc(count),
        collisions: collisions.labels(namespace, name, String(index)),
      }
    },
    stageSeconds: (of: string) => stageSeconds.labels(namespace, name, of),
    stageLatency: (from: string, to: string) => stageLatency.labels(namespace, name, from, to),
    stageError: (of: string, errorType: string) => stageErrors.inc({ namespace, name, stage: of, error_type: errorType }),
    sizes,
    throughput: throughput.labels(namespace, name),
    success: success.labels(namespace, name),
    active: active.labels(namespace, name),
    queue: (of: string) => queue.labels(namespace, name, of),
    queueWait: (of: string) => queueWait.labels(namespace, name, of),
    operation: (operation: string, isDone: boolean) => operations.inc({ namespace, name, operation, status: isDone ? 'success' : 'error' }),
    endToEnd,
    lag: (unit: 'messages' | 'seconds' | 'bytes') => lag.labels(namespace, name, unit),
    letter: (of: string, errorType: string) => letters.inc({ namespace, name, stage: of, error_type: errorType }),
    dropped: (reason: string) => dropped.labels(namespace, name, reason),
    inflight: inflight.labels(namespace, name),
    batches: (type: string, to: string) => batches.labels(namespace, name, type, to),
    checkpointAge: age.labels(namespace, name),
    blocked: blocked.labels(namespace, name),
    retained: retained.labels(namespace, name),
    conflicts: (type: string, to: string) => conflicts.labels(namespace, name, type, to),
    avoided: (type: string, to: string) => avoided.labels(namespace, name, type, to),
    objective: objective.labels(namespace, name),
    status: (phase: string, isCurrent: boolean) => status.set({ namespace, name, phase }, isCurrent ? 1 : 0),
  }
}
