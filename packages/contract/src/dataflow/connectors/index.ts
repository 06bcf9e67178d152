// All connectors by type. A spec may use the types in this list.
import { type ClickhouseSink, type ClickhouseSource, clickhouseSink, clickhouseSource } from './clickhouse.ts'
import {
  type IcebergSink,
  type IcebergSource,
  icebergSink,
  icebergSource,
  type NessieSink,
  type NessieSource,
  nessieSink,
  nessieSource,
} from './iceberg.ts'
import { type KafkaSink, type KafkaSource, kafkaSink, kafkaSource } from './kafka.ts'
import {
  type PostgresqlCdcSource,
  type PostgresqlSink,
  type PostgresqlSource,
  postgresqlCdcSource,
  postgresqlSink,
  postgresqlSource,
} from './postgresql.ts'
import { type TrinoSink, type TrinoSource, trinoSink, trinoSource } from './trino.ts'

export const sources = {
  kafka: kafkaSource,
  postgresql: postgresqlSource,
  'postgresql-cdc': postgresqlCdcSource,
  clickhouse: clickhouseSource,
  trino: trinoSource,
  nessie: nessieSource,
  iceberg: icebergSource,
} as const

export const sinks = {
  kafka: kafkaSink,
  postgresql: postgresqlSink,
  clickhouse: clickhouseSink,
  trino: trinoSink,
  nessie: nessieSink,
  iceberg: icebergSink,
} as const

export type SourceType = keyof typeof sources
export type SinkType = keyof typeof sinks

/** Normalized: always type and config. */
export type Source =
  | { readonly type: 'kafka'; readonly config: KafkaSource }
  | { readonly type: 'postgresql'; readonly config: PostgresqlSource }
  | { readonly type: 'postgresql-cdc'; readonly config: PostgresqlCdcSource }
  | { readonly type: 'clickhouse'; readonly config: ClickhouseSource }
  | { readonly type: 'trino'; readonly config: TrinoSource }
  | { readonly type: 'nessie'; readonly config: NessieSource }
  | { readonly type: 'iceberg'; readonly config: IcebergSource }

export type Sink =
  | { readonly type: 'kafka'; readonly config: KafkaSink }
  | { readonly type: 'postgresql'; readonly config: PostgresqlSink }
  | { readonly type: 'clickhouse'; readonly config: ClickhouseSink }
  | { readonly type: 'trino'; readonly config: TrinoSink }
  | { readonly type: 'nessie'; readonly config: NessieSink }
  | { readonly type: 'iceberg'; readonly config: IcebergSink }
