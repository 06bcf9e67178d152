// Rules on what can be promised about each record: confirmed writes, exactly-once effect, harmless repeats.
import type { Sink, Source } from './connectors/index.ts'
import { at } from './connectors/shared.ts'
import type { Problem, Warning } from './problem.ts'

/** Each sink with the place of its configuration. */
export interface PlacedSink {
  readonly sink: Sink
  readonly path: string
}

/** V22: whoever must know that a write arrived cannot do without an answer. */
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

/** Brokers that a secret names are compared once they are known. */
const isSameCluster = (left: readonly string[] | undefined, right: readonly string[] | undefined): boolean =>
  left === undefined || right === undefined || left.some((broker) => right.includes(broker))

const reread: ReadonlySet<string> = new Set(['postgresql', 'postgresql-cdc', 'clickhouse', 'trino'])

/** V38: a source that may read a row again, before a sink that would write it again. */
export function warnRepeats(sinks: readonly PlacedSink[], source: Source): (Warning & Problem)[] {
  if (!reread.has(source.type)) return []
  return sinks
    .filter(({ sink }) => !isUpsert(sink) && sink.config.exactlyOnce !== 'required')
    .map(({ path }) => at(path, 'V38', 'a re-read can write a row twice: use upsertMode or exactlyOnce'))
}

/** Whether a record may be written again without harm. */
export const isUpsert = (sink: Sink): boolean => sink.type !== 'kafka' && sink.config.upsertMode
