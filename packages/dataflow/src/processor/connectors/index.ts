// Every connector, by type. A new one is a file of its own and a line here; its fields stand in the contract.
import type { Sink as SinkSpec, SinkType, Source as SourceSpec, SourceType } from '@brokkr/contract/dataflow/connectors/index.ts'
import type { SinkConnector, SourceConnector } from './connector.ts'
import { kafkaSink, kafkaSource } from './kafka.ts'
import { postgresqlSink, postgresqlSource } from './postgresql.ts'
import { postgresqlCdcSource } from './postgresql-cdc.ts'

type SourceConfig<T extends SourceType> = Extract<SourceSpec, { type: T }>['config']
type SinkConfig<T extends SinkType> = Extract<SinkSpec, { type: T }>['config']

export const sourceConnectors: { readonly [T in SourceType]?: SourceConnector<SourceConfig<T>> } = {
  kafka: kafkaSource,
  postgresql: postgresqlSource,
  'postgresql-cdc': postgresqlCdcSource,
}

export const sinkConnectors: { readonly [T in SinkType]?: SinkConnector<SinkConfig<T>> } = {
  kafka: kafkaSink,
  postgresql: postgresqlSink,
}
