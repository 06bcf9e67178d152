// All connectors by type. A new connector is a folder and an entry here; its fields are in contract/dataflow/connectors.
import type { Sink as SinkSpec, SinkType, Source as SourceSpec, SourceType } from '@brokkr/contract/dataflow/connectors/index.ts'
import { postgresqlCdcSource } from './cdc/index.ts'
import { clickhouseSink, clickhouseSource } from './clickhouse/index.ts'
import type { SinkConnector, SourceConnector } from './connector.ts'
import { icebergSink, icebergSource, nessieSink, nessieSource } from './iceberg/index.ts'
import { kafkaSink, kafkaSource } from './kafka/index.ts'
import { postgresqlSink, postgresqlSource } from './postgresql/index.ts'
import { trinoSink, trinoSource } from './trino/index.ts'

type SourceConfig<T extends SourceType> = Extract<SourceSpec, { type: T }>['config']
type SinkConfig<T extends SinkType> = Extract<SinkSpec, { type: T }>['config']

export const sourceConnectors: { readonly [T in SourceType]: SourceConnector<SourceConfig<T>> } = {
  kafka: kafkaSource,
  postgresql: postgresqlSource,
  'postgresql-cdc': postgresqlCdcSource,
  clickhouse: clickhouseSource,
  trino: trinoSource,
  nessie: nessieSource,
  iceberg: icebergSource,
}

export const sinkConnectors: { readonly [T in SinkType]: SinkConnector<SinkConfig<T>> } = {
  kafka: kafkaSink,
  postgresql: postgresqlSink,
  clickhouse: clickhouseSink,
  trino: trinoSink,
  nessie: nessieSink,
  iceberg: icebergSink,
}
