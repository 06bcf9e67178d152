// Opens the connector of a source or sink spec.
import type { Sink as SinkSpec, Source as SourceSpec } from '@brokkr/contract/dataflow/connectors/index.ts'
import type {
  ConnectorContext,
  Fault,
  Message,
  Rec,
  Sink,
  SinkConnector,
  SinkContext,
  Source,
  SourceConnector,
  SourceContext,
} from './connector.ts'
import type { DeadLetterRows } from './dead-letter-rows.ts'
import { sinkConnectors, sourceConnectors } from './index.ts'

export const openSource = (spec: SourceSpec, context: SourceContext): Source => findSourceConnector(spec).open(spec.config, context)

/** Undefined for a sink whose dead letters are not rows that can be read back. */
export const deadLetterRowsOf = (spec: SinkSpec): ((context: ConnectorContext) => DeadLetterRows) | undefined => {
  const connector = findSinkConnector(spec)
  return connector.openDeadLetters === undefined ? undefined : (context) => connector.openDeadLetters!(spec.config, context)
}

export const openSink = (spec: SinkSpec, context: SinkContext): Sink => findSinkConnector(spec).open(spec.config, context)

/** For the preview: without side effects. */
export const sampleSource = (spec: SourceSpec, context: ConnectorContext, count: number): Promise<readonly Message[]> =>
  findSourceConnector(spec).sample(spec.config, context, count)

export const checkSink = (spec: SinkSpec, context: ConnectorContext, records: readonly Rec[]): Promise<readonly (Fault | undefined)[]> =>
  findSinkConnector(spec).check(spec.config, context, records)

/** The table maps each type to its configuration; the compiler cannot follow a union through it. */
const findSourceConnector = ({ type }: SourceSpec): SourceConnector<unknown> => sourceConnectors[type]

const findSinkConnector = ({ type }: SinkSpec): SinkConnector<unknown> => sinkConnectors[type]
