// From a flow's source or sink, as the spec names it, to the connector that does the work.
import type { Sink as SinkSpec, Source as SourceSpec } from '@brokkr/contract/dataflow/connectors/index.ts'
import { BadStart } from './config.ts'
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
} from './connectors/connector.ts'
import { sinkConnectors, sourceConnectors } from './connectors/index.ts'

export const openSource = (spec: SourceSpec, context: SourceContext): Source => sourceOf(spec).open(spec.config, context)

export const openSink = (spec: SinkSpec, context: SinkContext): Sink => sinkOf(spec).open(spec.config, context)

/** For the preview: nothing is left behind. */
export const sampleSource = (spec: SourceSpec, context: ConnectorContext, count: number): Promise<readonly Message[]> =>
  sourceOf(spec).sample(spec.config, context, count)

export const checkSink = (spec: SinkSpec, context: ConnectorContext, records: readonly Rec[]): Promise<readonly (Fault | undefined)[]> =>
  sinkOf(spec).check(spec.config, context, records)

/** The table pairs each type with its configuration; the compiler cannot follow a union through it. */
function sourceOf({ type }: SourceSpec): SourceConnector<unknown> {
  const found = sourceConnectors[type]
  if (found === undefined) throw new BadStart(`source type ${type} is not part of this build`)
  return found
}

function sinkOf({ type }: SinkSpec): SinkConnector<unknown> {
  const found = sinkConnectors[type]
  if (found === undefined) throw new BadStart(`sink type ${type} is not part of this build`)
  return found
}
