// postgresql, both sides: what the pipeline opens, and what the preview may look at without leaving a trace.
import type { PostgresqlSink as SinkConfig, PostgresqlSource as SourceConfig } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import type { SinkConnector, SourceConnector } from './connector.ts'
import { PostgresSink } from './postgresql-sink.ts'
import { PostgresSource } from './postgresql-source.ts'

export const postgresqlSource: SourceConnector<SourceConfig> = {
  open: (config, context) => new PostgresSource(config, context),
  /** The first rows. */
  async sample(config, context, count) {
    const none = async () => undefined
    const source = new PostgresSource(
      { ...config, autoCreateTable: false, readBatchSize: count },
      {
        ...context,
        stored: undefined,
        isBounded: true,
        replicas: 1,
        assigned: none,
        revoked: none,
        stateChanged: () => undefined,
        notice: () => undefined,
        dropped: () => undefined,
      },
    )
    try {
      await source.connect()
      for await (const { messages } of source.read({ isSpent: false, room: none })) return messages.slice(0, count)
      return []
    } finally {
      await source.close()
    }
  },
}

export const postgresqlSink: SinkConnector<SinkConfig> = {
  open: (config, context) => new PostgresSink(config, context),
  async check(config, context, records) {
    const source = { origin: '', compare: () => 0 }
    const sink = new PostgresSink(
      { ...config, exactlyOnce: 'off' },
      { ...context, role: 'main', positionKey: '', source, epoch: 0, soleWriter: undefined, conflictsIgnored: () => undefined },
    )
    try {
      await sink.connect()
      return await sink.tryOut(records)
    } finally {
      await sink.close()
    }
  },
}
