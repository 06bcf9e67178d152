// clickhouse connector: source and sink for the pipeline, and side-effect-free checks for the preview.
import type { ClickhouseSink as SinkConfig, ClickhouseSource as SourceConfig } from '@brokkr/contract/dataflow/connectors/clickhouse.ts'
import type { SinkConnector, SourceConnector, SourceContext } from '../connector.ts'
import { PollingSource } from '../polling/polling-source.ts'
import { toCheckContext, toSampleContext } from '../preview-contexts.ts'
import { ClickhouseDeadLetters } from './dead-letters.ts'
import { ClickhousePolling } from './polling.ts'
import { ClickhouseSink } from './sink.ts'

const openSource = (config: SourceConfig, context: SourceContext) =>
  new PollingSource('clickhouse', config, context, new ClickhousePolling(config, context))

export const clickhouseSource: SourceConnector<SourceConfig> = {
  open: openSource,
  /** The first rows. */
  async sample(config, context, count) {
    const source = openSource({ ...config, readBatchSize: count }, toSampleContext(context))
    try {
      await source.connect()
      for await (const { messages } of source.read({ isSpent: false, room: async () => undefined })) return messages.slice(0, count)
      return []
    } finally {
      await source.close()
    }
  },
}

export const clickhouseSink: SinkConnector<SinkConfig> = {
  open: (config, context) => new ClickhouseSink(config, context),
  openDeadLetters: (config, context) => new ClickhouseDeadLetters(config, context),
  async check(config, context, records) {
    const sink = new ClickhouseSink({ ...config, exactlyOnce: 'off' }, toCheckContext(context))
    try {
      await sink.connect()
      return sink.tryOut(records)
    } finally {
      await sink.close()
    }
  },
}
