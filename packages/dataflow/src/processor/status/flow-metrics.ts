// Metrics of one flow. Every series has the labels namespace and name; counters used per message are bound once.
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'

const powersOfTwo = (first: number, count: number): number[] => Array.from({ length: count }, (_, at) => first * 2 ** at)

const base = ['namespace', 'name'] as const
const connector = [...base, 'connector_type', 'connector_name'] as const
const route = [...base, 'sink_type', 'route'] as const

export interface FlowLabels {
  readonly namespace: string
  readonly name: string
}

export type FlowMetrics = ReturnType<typeof createFlowMetrics>

export function createFlowMetrics(metrics: Metrics, flow: FlowLabels) {
  const { namespace, name } = flow
  const counter = <L extends string>(id: string, help: string, labels: readonly L[]) => metrics.counter(id, help, [...base, ...labels])
  const gauge = <L extends string>(id: string, help: string, labels: readonly L[] = []) => metrics.gauge(id, help, [...base, ...labels])
  const received = counter('dataflow_messages_received_total', 'Number of messages read', ['source_type'])
  const sentCounter = metrics.counter('dataflow_messages_sent_total', 'Number of records that sinks acknowledged', route)
  const processing = metrics.tally(
    'dataflow_processing_duration_seconds',
    'Duration of the transform chain per message',
    { namespace, name },
    powersOfTwo(0.001, 10),
  )
  const readCounter = metrics.counter('dataflow_connector_messages_read_total', 'Number of messages read by connector', connector)
  const writtenCounter = metrics.counter('dataflow_connector_messages_written_total', 'Number of records written by connector', [
    ...connector,
    'route',
  ])
  const errors = metrics.counter('dataflow_connector_errors_total', 'Number of failed connector calls', [
    ...connector,
    'operation',
    'error_type',
  ])
  const connection = metrics.gauge('dataflow_connector_connection_status', 'Connection state of a connector, 1 while connected', connector)
  const poll = metrics.gauge('dataflow_connector_source_poll_healthy', 'Health of source reads, 1 while they succeed', connector)
  const step = [...base, 'transformer_type', 'transformer_index'] as const
  const executions = metrics.counter('dataflow_transformer_executions_total', 'Number of messages processed by a step', step)
  const stepErrors = metrics.counter('dataflow_transformer_errors_total', 'Number of messages that failed in a step', [
    ...step,
    'error_type',
  ])
  const stepIn = metrics.counter('dataflow_transformer_messages_in_total', 'Number of messages into a step', step)
  const stepOut = metrics.counter('dataflow_transformer_messages_out_total', 'Number of messages out of a step', step)
  const stepSeconds = metrics.histogram(
    'dataflow_transformer_duration_seconds',
    'Duration of a step per message',
    step,
    powersOfTwo(0.0001, 12),
  )
  const stage = [...base, 'stage'] as const
  const stageSeconds = metrics.histogram(
    'dataflow_task_stage_duration_seconds',
    'Duration of a stage per batch',
    stage,
    powersOfTwo(0.0001, 14),
  )
  const stageLatency = metrics.histogram(
    'dataflow_task_stage_latency_seconds',
    'Latency from one stage to the next',
    [...base, 'from_stage', 'to_stage'],
    powersOfTwo(0.0001, 12),
  )
  const stageErrors = metrics.counter('dataflow_task_stage_errors_total', 'Number of failures by stage', [...stage, 'error_type'])
  const sizes = metrics.tally(
    'dataflow_task_message_size_bytes',
    'Size of payloads',
    { namespace, name, stage: 'read' },
    powersOfTwo(64, 16),
  )
  const throughput = gauge('dataflow_task_throughput_messages_per_second', 'Messages with an outcome per second')
  const success = gauge('dataflow_task_success_rate', 'Share of written messages among those with an outcome')
  const active = gauge('dataflow_task_active_messages', 'Number of messages in flight')
  const queue = gauge('dataflow_task_queue_size', 'Number of records in a sink queue', ['queue_type'])
  const queueWait = metrics.histogram(
    'dataflow_task_queue_wait_time_seconds',
    'Time of records in a sink queue',
    [...base, 'queue_type'],
    powersOfTwo(0.0001, 14),
  )
  const operations = counter('dataflow_task_operations_total', 'Number of reads, writes, commits and saves by result', [
    'operation',
    'status',
  ])
  const endToEnd = metrics.tally(
    'dataflow_task_end_to_end_latency_seconds',
    'Latency from source time to acknowledgement',
    { namespace, name },
    powersOfTwo(0.005, 18),
  )
  const lag = gauge('dataflow_source_lag', 'Lag of the source by unit', ['unit'])
  const deadLetters = counter('dataflow_dead_letters_total', 'Number of dead letters', ['stage', 'error_type'])
  const dropped = counter('dataflow_messages_dropped_total', 'Number of messages dropped on purpose by reason', ['reason'])
  const inflight = gauge('dataflow_inflight_bytes', 'Bytes of messages in flight')
  const batches = metrics.histogram('dataflow_sink_batch_size', 'Number of records per acknowledged batch', route, powersOfTwo(1, 18))
  const age = gauge('dataflow_checkpoint_age_seconds', 'Age of the saved checkpoint')
  const blocked = gauge('dataflow_blocked', 'State of the flow, 1 while it is blocked')
  const retained = gauge('dataflow_cdc_slot_retained_bytes', 'Bytes of WAL that the replication slot retains')
  const conflicts = metrics.counter('dataflow_conflicts_ignored_total', 'Number of rows ignored because of a conflict', route)
  const collisions = counter('dataflow_key_collisions_total', 'Number of keys renamed to an existing key', ['transformer_index'])
  const avoided = metrics.counter('dataflow_duplicates_avoided_total', 'Number of records skipped because the sink already has them', route)
  const objective = gauge('dataflow_lag_objective_seconds', 'Lag objective for alerts')
  const status = gauge('dataflow_status', 'Phase of the flow, 1 for the current one', ['phase'])
  return {
    received: (type: string) => received.labels(namespace, name, type),
    sent: (type: string, to: string) => sentCounter.labels(namespace, name, type, to),
    processing,
    read: (type: string) => readCounter.labels(namespace, name, type, 'source'),
    written: (type: string, to: string) => writtenCounter.labels(namespace, name, type, to === 'errors' ? 'errors' : 'sink', to),
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
    deadLetter: (of: string, errorType: string) => deadLetters.inc({ namespace, name, stage: of, error_type: errorType }),
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
