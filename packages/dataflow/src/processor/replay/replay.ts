// Replays dead letters: a record that a sink rejected goes straight to that sink, a message that failed earlier runs through the chain. A
// replay is a flow whose source is the dead-letter store, so retries, bisection and dead letters work as in every flow.
import { randomUUID } from 'node:crypto'
import type { Sink as SinkSpec } from '@brokkr/contract/dataflow/connectors/index.ts'
import type { KafkaSink } from '@brokkr/contract/dataflow/connectors/kafka.ts'
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { ConnectorContext, Sink, Source, SourceContext } from '../../connectors/connector.ts'
import type { DeadLetterRows } from '../../connectors/dead-letter-rows.ts'
import { deadLetterRowsOf, openSink, openSource } from '../../connectors/open-connectors.ts'
import { InvalidStart } from '../config.ts'
import type { FlowSettings } from '../flow-settings.ts'
import { Pipeline } from '../pipeline/pipeline.ts'
import type { Redact } from '../secret-values.ts'
import type { FlowMetrics } from '../status/flow-metrics.ts'
import { DeadLetterTable } from './dead-letter-table.ts'
import { createDeadLetterTopic, toDeadLetterTopicConfig } from './dead-letter-topic.ts'
import { InFlightDeadLetters } from './in-flight-dead-letters.ts'
import { createReplayChain } from './replay-chain.ts'
import { createReplayBuilder } from './replay-dead-letters.ts'
import type { Selection } from './stored-dead-letter.ts'

export interface ReplayDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FlowMetrics
  readonly redact: Redact
}

export interface ReplayOptions {
  readonly flow: Flow
  readonly identity: { readonly namespace: string; readonly name: string }
  /** Uid of the DataFlow object; part of the name of the consumer group that stores replayed dead letters. */
  readonly uid: string
  readonly specHash: string
  readonly selection: Selection
  readonly allowLoopback: boolean
  readonly settings: FlowSettings
}

/** Dead letters by result: written or dropped by the flow, failed again, ignored (of another flow, or without a payload). */
export interface ReplayCounts {
  readonly written: number
  readonly failed: number
  readonly dropped: number
}

export interface Replay {
  readonly pipeline: Pipeline
  /** Rejects if the replay failed. */
  run(): Promise<ReplayCounts>
}

export function createReplay(deps: ReplayDeps, options: ReplayOptions): Replay {
  const { flow, identity } = options
  const errors = flow.errors ?? refuse('the flow has no errors sink, so there are no dead letters to replay')
  const key = `${identity.namespace}/${identity.name}`
  const inFlightDeadLetters = new InFlightDeadLetters()
  const store = openDeadLetterStore(errors.sink, { key, inFlightDeadLetters, options })
  const pipeline = new Pipeline(
    {
      ...deps,
      checkpoint: undefined,
      openSource: (context) => store.open(context),
      openSink: ({ role, spec }, context) => (role === 'errors' && store.sink?.()) || openSink(spec, context),
      replay: {
        chain: (chain) => createReplayChain(chain, inFlightDeadLetters, { flow: key, transformations: flow.transformations }),
        deadLetters: (builder) => createReplayBuilder(builder, inFlightDeadLetters),
      },
    },
    {
      ...options,
      // Another name, because positions that sinks store for the flow itself do not apply to a replay.
      identity: { namespace: identity.namespace, name: `${identity.name}/replay` },
      flow: {
        ...flow,
        source: store.source,
        ...(store.isTransactional ? {} : withoutTransactions(flow)),
        errors: { ...errors, ackPolicy: 'afterWrite', maxConsecutive: 0 },
        replicas: 1,
        transformWorkers: 1,
      },
      oneShots: store.forgets ? { resetId: randomUUID() } : {},
      isBounded: true,
    },
  )
  return { pipeline, run: () => runReplayPipeline(pipeline) }
}

async function runReplayPipeline(pipeline: Pipeline): Promise<ReplayCounts> {
  const end = await pipeline.run()
  if (end.exitCode !== 0) throw new Error(`the replay failed: ${end.reason}`)
  const { processedCount, droppedCount, errorCount } = pipeline.progress({ pod: '', version: '' })
  return { written: processedCount - droppedCount - errorCount, failed: errorCount, dropped: droppedCount }
}

interface DeadLetterStore {
  readonly source: Flow['source']
  open(context: SourceContext): Source
  /** The errors sink of the replay if the store itself is that sink. */
  sink?(): Sink
  /** Whether offsets of the dead letters can be part of a sink's transaction. */
  readonly isTransactional: boolean
  /** Positions of an earlier run are not valid in this one. */
  readonly forgets: boolean
}

interface DeadLetterStoreParts {
  readonly key: string
  readonly inFlightDeadLetters: InFlightDeadLetters
  readonly options: ReplayOptions
}

function openDeadLetterStore(sink: SinkSpec, parts: DeadLetterStoreParts): DeadLetterStore {
  if (sink.type === 'kafka') return openTopicStore(sink.config, parts)
  const openRows = deadLetterRowsOf(sink)
  const source = toTableSource(sink)
  if (openRows !== undefined && source !== undefined) return new TableStore(source, openRows, parts)
  return refuse(
    `the errors sink type ${sink.type} is not supported for replay; use an errors sink of type kafka, postgresql, clickhouse or trino`,
  )
}

function openTopicStore(config: KafkaSink, { inFlightDeadLetters, options }: DeadLetterStoreParts): DeadLetterStore {
  const { flow, selection, uid } = options
  const source = { type: 'kafka', config: toDeadLetterTopicConfig(config, `dataflow-replay-${uid}`) } as const
  const isTransactional = flow.sink.type === 'kafka' && String(flow.sink.config.brokers) === String(config.brokers)
  const open = (context: SourceContext) => createDeadLetterTopic(openSource(source, context), inFlightDeadLetters, selection)
  return { source, isTransactional, forgets: false, open }
}

/** A dead-letter table is source and errors sink of the replay: a repeated failure updates the row that was read. */
class TableStore implements DeadLetterStore {
  readonly #openRows: (context: ConnectorContext) => DeadLetterRows
  readonly #parts: DeadLetterStoreParts
  #table: DeadLetterTable | undefined
  readonly source: Flow['source']
  readonly isTransactional = false
  readonly forgets = true

  constructor(source: Flow['source'], openRows: (context: ConnectorContext) => DeadLetterRows, parts: DeadLetterStoreParts) {
    this.source = source
    this.#openRows = openRows
    this.#parts = parts
  }

  open(context: ConnectorContext): DeadLetterTable {
    const { key: flow, inFlightDeadLetters, options } = this.#parts
    const rows = this.#openRows(context)
    this.#table ??= new DeadLetterTable(context, inFlightDeadLetters, { rows, flow, selection: options.selection })
    return this.#table
  }

  sink(): Sink {
    if (this.#table === undefined) throw new Error('the source of a replay is opened before its sinks')
    return this.#table.asSink()
  }
}

/** The table as a source of the replay's flow: its type is a label of metrics and logs. */
function toTableSource(sink: SinkSpec): Flow['source'] | undefined {
  const columns = { query: undefined, changeTrackingColumn: 'created_at', orderByColumn: 'id', pollIntervalMs: 5000, readBatchSize: 1000 }
  if (sink.type === 'postgresql') {
    const { connectionString, tls, table } = sink.config
    return { type: 'postgresql', config: { connectionString, tls, table, ...columns, overlapSeconds: 0, autoCreateTable: false } }
  }
  if (sink.type === 'trino') return { type: 'trino', config: { ...sink.config, ...columns } }
  if (sink.type !== 'clickhouse') return undefined
  const { connectionString, httpPort, table } = sink.config
  return { type: 'clickhouse', config: { connectionString, httpPort, table, ...columns } }
}

/** Offsets of another cluster cannot be part of a sink's transaction, and a replay has no checkpoint: then dead letters are replayed at
 *  least once. */
function withoutTransactions({ sink, transformations }: Flow): Pick<Flow, 'sink' | 'transformations'> {
  const plain = (of: SinkSpec): SinkSpec =>
    (of.type === 'kafka' || of.type === 'clickhouse') && of.config.exactlyOnce === 'required'
      ? ({ ...of, config: { ...of.config, exactlyOnce: 'auto' } } as SinkSpec)
      : of
  const steps = transformations.map((step) => {
    if (step.type !== 'router') return step
    return { ...step, config: { ...step.config, routes: step.config.routes.map((route) => ({ ...route, sink: plain(route.sink) })) } }
  })
  return { sink: plain(sink), transformations: steps }
}

function refuse(reason: string): never {
  throw new InvalidStart(reason)
}
