// postgresql connector: source and sink for the pipeline, and side-effect-free checks for the preview.
import type { PostgresqlSink as SinkConfig, PostgresqlSource as SourceConfig } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import type { SinkConnector, SourceConnector } from '../connector.ts'
import { toCheckContext, toSampleContext } from '../preview-contexts.ts'
import { PostgresDeadLetters } from './dead-letters.ts'
import { PostgresSink } from './sink.ts'
import { PostgresSource } from './source.ts'

export const postgresqlSource: SourceConnector<SourceConfig> = {
  open: (config, context) => new PostgresSource(config, context),
  /** The first rows. */
  async sample(config, context, count) {
    const source = new PostgresSource({ ...config, autoCreateTable: false, readBatchSize: count }, toSampleContext(context))
    try {
      await source.connect()
      for await (const { messages } of source.read({ isSpent: false, room: async () => undefined })) return messages.slice(0, count)
      return []
    } finally {
      await source.close()
    }
  },
}

export const postgresqlSink: SinkConnector<SinkConfig> = {
  open: (config, context) => new PostgresSink(config, context),
  openDeadLetters: (config, context) => new PostgresDeadLetters(config, context),
  async check(config, context, records) {
    const sink = new PostgresSink({ ...config, exactlyOnce: 'off' }, toCheckContext(context))
    try {
      await sink.connect()
      return await sink.tryOut(records)
    } finally {
      await sink.close()
    }
  },
}
