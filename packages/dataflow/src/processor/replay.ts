// Dead letters once more: what a sink refused goes straight to that sink, what failed before it runs through the whole chain. It is a
// flow of its own whose source is the place of the letters, so that retries, bisection and letters are those of every flow; letters
// that are done are marked, what fails again is a letter with one attempt more.
import { randomUUID } from 'node:crypto'
import type { Sink as SinkSpec } from '@brokkr/contract/dataflow/connectors/index.ts'
import type { Flow } from '@brokkr/contract/dataflow/types.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { BadStart } from './config.ts'
import type { ConnectorContext, Source, SourceContext } from './connectors/connector.ts'
import type { FlowSettings } from './flow-settings.ts'
import type { FlowMetrics } from './metrics.ts'
import { openSink, openSource } from './open-connectors.ts'
import { Pipeline } from './pipeline.ts'
import type { Selection } from './replay/letter.ts'
import { LetterBook } from './replay/letter-book.ts'
import { LetterTable } from './replay/letter-table.ts'
import { letterTopic, letterTopicConfig } from './replay/letter-topic.ts'
import { replayChain } from './replay/replay-chain.ts'
import { replayLetters } from './replay/replay-letters.ts'

export interface ReplayDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: FlowMetrics
  readonly redact: (text: string) => string
}

export interface ReplayOptions {
  readonly flow: Flow
  readonly identity: { readonly namespace: string; readonly name: string }
  /** Of the flow's object: names the group that remembers what is done. */
  readonly uid: string
  readonly specHash: string
  readonly selection: Selection
  readonly allowLoopback: boolean
  readonly settings: FlowSettings
}

/** Letters: written or dropped on purpose, failed again, passed over (of another flow, or without a payload). */
export interface Replayed {
  readonly written: number
  readonly failed: number
  readonly dropped: number
}

export interface Replay {
  readonly pipeline: Pipeline
  /** Rejects when it could not be done. */
  run(): Promise<Replayed>
}

export function openReplay(deps: ReplayDeps, options: ReplayOptions): Replay {
  const { flow, identity } = options
  const errors = flow.errors ?? refuse('the flow has no errors sink: there are no letters')
  const key = `${identity.namespace}/${identity.name}`
  const book = new LetterBook()
  const place = placeOf(errors.sink, { key, book, options })
  const pipeline = new Pipeline(
    {
      ...deps,
      checkpoint: undefined,
      openSource: (context) => place.open(context),
      openSink: ({ role, spec }, context) => (role === 'errors' && place.sink?.()) || openSink(spec, context),
      replay: {
        chain: (chain) => replayChain(chain, book, { flow: key, transformations: flow.transformations }),
        letters: (maker) => replayLetters(maker, book),
      },
    },
    {
      ...options,
      // Positions that sinks keep for the flow itself are none of a replay's business.
      identity: { namespace: identity.namespace, name: `${identity.name}/replay` },
      flow: {
        ...flow,
        source: place.source,
        ...(place.isTransactional ? {} : withoutTransactions(flow)),
        errors: { ...errors, ackPolicy: 'afterWrite', maxConsecutive: 0 },
        replicas: 1,
        transformWorkers: 1,
      },
      oneShots: place.forgets ? { resetId: randomUUID() } : {},
      isBounded: true,
    },
  )
  return { pipeline, run: () => run(pipeline) }
}

async function run(pipeline: Pipeline): Promise<Replayed> {
  const end = await pipeline.run()
  if (end.exitCode !== 0) throw new Error(`the letters were not replayed: ${end.reason}`)
  const { processedCount, droppedCount, errorCount } = pipeline.progress({ pod: '', version: '' })
  return { written: processedCount - droppedCount - errorCount, failed: errorCount, dropped: droppedCount }
}

interface Place {
  readonly source: Flow['source']
  open(context: SourceContext): Source
  sink?(): ReturnType<LetterTable['asSink']>
  /** Whether offsets of the letters can be part of a sink's transaction. */
  readonly isTransactional: boolean
  /** Positions of an earlier run mean nothing in this one. */
  readonly forgets: boolean
}

interface PlaceParts {
  readonly key: string
  readonly book: LetterBook
  readonly options: ReplayOptions
}

function placeOf(sink: SinkSpec, { key, book, options }: PlaceParts): Place {
  const { flow, selection, uid } = options
  if (sink.type === 'kafka') {
    const source = { type: 'kafka', config: letterTopicConfig(sink.config, `dataflow-replay-${uid}`) } as const
    const isTransactional = flow.sink.type === 'kafka' && String(flow.sink.config.brokers) === String(sink.config.brokers)
    return { source, isTransactional, forgets: false, open: (context) => letterTopic(openSource(source, context), book, selection) }
  }
  if (sink.type !== 'postgresql') return refuse(`letters in ${sink.type} cannot be replayed by this build`)
  const { connectionString, tls, table } = sink.config
  const config = { connectionString, tls, table, pollIntervalMs: 5000, readBatchSize: 1000, overlapSeconds: 0, autoCreateTable: false }
  const columns = { query: undefined, changeTrackingColumn: 'created_at', orderByColumn: 'id' }
  let letters: LetterTable | undefined
  const opened = (context: ConnectorContext) => (letters ??= new LetterTable(context, book, { config: sink.config, flow: key, selection }))
  return {
    source: { type: 'postgresql', config: { ...config, ...columns } },
    isTransactional: false,
    forgets: true,
    open: opened,
    sink: () => letters!.asSink(),
  }
}

/** Offsets of a source elsewhere cannot be part of a sink's transactions: then letters are replayed at least once. */
function withoutTransactions({ sink, transformations }: Flow): Pick<Flow, 'sink' | 'transformations'> {
  const plain = (of: SinkSpec): SinkSpec =>
    of.type === 'kafka' && of.config.exactlyOnce === 'required' ? { ...of, config: { ...of.config, exactlyOnce: 'auto' } } : of
  const steps = transformations.map((step) => {
    if (step.type !== 'router') return step
    return { ...step, config: { ...step.config, routes: step.config.routes.map((route) => ({ ...route, sink: plain(route.sink) })) } }
  })
  return { sink: plain(sink), transformations: steps }
}

function refuse(reason: string): never {
  throw new BadStart(reason)
}
