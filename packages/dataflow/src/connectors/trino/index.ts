// trino connector: source and sink for the pipeline, and side-effect-free checks for the preview.
import type { TrinoSink as SinkConfig, TrinoSource as SourceConfig } from '@brokkr/contract/dataflow/connectors/trino.ts'
import type { SinkConnector, SourceConnector, SourceContext } from '../connector.ts'
import { PollingSource } from '../polling/polling-source.ts'
import { toCheckContext, toSampleContext } from '../preview-contexts.ts'
import { TrinoDeadLetters } from './dead-letters.ts'
import { TrinoPolling } from './polling.ts'
import { TrinoSink } from './sink.ts'

const openSource = (config: SourceConfig, context: SourceContext) =>
  new PollingSource('trino', config, context, new TrinoPolling(config, context))

export const trinoSource: SourceConnector<SourceConfig> = {
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

export const trinoSink: SinkConnector<SinkConfig> = {
  open: (config, context) => new TrinoSink(config, context),
  openDeadLetters: (config, context) => new TrinoDeadLetters(config, context),
  async check(config, context, records) {
    const sink = new TrinoSink(config, toCheckContext(context))
    try {
      await sink.connect()
      return await sink.tryOut(records)
    } finally {
      await sink.close()
    }
  },
}
