// Rules on delivery guarantees: confirmed writes, exactly-once effect, idempotent repeats.
import type { Sink, Source } from '../connectors/index.ts'
import { at } from '../connectors/shared.ts'
import type { Problem, Warning } from '../fields/problem.ts'
import type { Transformation } from './types.ts'

/** Each sink with the location of its configuration. */
export interface PlacedSink {
  readonly sink: Sink
  readonly path: string
}

/** V22: a guarantee that needs confirmed writes requires acknowledgements. */
export function checkConfirmed(sinks: readonly PlacedSink[], hasErrorsSink: boolean): Problem[] {
  return sinks.flatMap(({ sink, path }) =>
    sink.type === 'kafka' && sink.config.requiredAcks === 'none' && (hasErrorsSink || sink.config.exactlyOnce === 'required')
      ? [at(`${path}.requiredAcks`, 'V22', 'requiredAcks none cannot confirm a write')]
      : [],
  )
}

/** V31. */
export function checkExactlyOnce(sinks: readonly PlacedSink[], source: Source): Problem[] {
  return sinks.flatMap(({ sink, path }) => {
    const reason = sink.config.exactlyOnce === 'required' ? whyNotExactlyOnce(sink, source) : undefined
    return reason === undefined ? [] : [at(`${path}.exactlyOnce`, 'V31', `${sink.type} cannot write exactly once here: ${reason}`)]
  })
}

function whyNotExactlyOnce(sink: Sink, source: Source): string | undefined {
  if (sink.type === 'trino') return 'it needs upsertMode, which trino sinks do not have'
  if (sink.type !== 'kafka') return undefined
  if (source.type !== 'kafka') return 'the source is not kafka'
  return isSameCluster(source.config.brokers, sink.config.brokers) ? undefined : 'source and sink are different clusters'
}

/** V31: a transaction contains the source's offset with the last record of a message, so records of one message must not be in
 *  transactions of two sinks. Only a router after a flatten can send them to different sinks. */
export function checkSplitTransactions(sinks: readonly PlacedSink[], transformations: readonly Transformation[]): Problem[] {
  const flattenAt = transformations.findIndex(({ type }) => type === 'flatten')
  const isSplit = flattenAt >= 0 && transformations.slice(flattenAt).some(({ type }) => type === 'router')
  if (!isSplit) return []
  const [, ...others] = sinks.filter(({ sink }) => sink.type === 'kafka' && sink.config.exactlyOnce === 'required')
  return others.map(({ path }) => at(`${path}.exactlyOnce`, 'V31', splitText))
}
const splitText =
  'kafka cannot write exactly once here: flatten and router can send records of one message to this sink and to another with exactlyOnce required'

/** Brokers from a secret are compared when it is resolved. */
const isSameCluster = (left: readonly string[] | undefined, right: readonly string[] | undefined): boolean =>
  left === undefined || right === undefined || left.some((broker) => right.includes(broker))

const reread: ReadonlySet<string> = new Set(['postgresql', 'postgresql-cdc', 'clickhouse', 'trino'])

/** V38: a source that may repeat a row, with a sink that would write it again. */
export function warnRepeats(sinks: readonly PlacedSink[], source: Source): (Warning & Problem)[] {
  if (!reread.has(source.type)) return []
  return sinks
    .filter(({ sink }) => !isUpsert(sink) && sink.config.exactlyOnce !== 'required')
    .map(({ path }) => at(path, 'V38', 'a re-read can write a row twice: use upsertMode or exactlyOnce'))
}

/** Whether repeated writes are idempotent. */
export const isUpsert = (sink: Sink): boolean => sink.type !== 'kafka' && sink.config.upsertMode
