// nessie and iceberg connectors: source and sink for the pipeline, and side-effect-free checks for the preview. They differ in the
// address of the catalog alone.
import type {
  IcebergSink as IcebergSinkConfig,
  IcebergSource as IcebergSourceConfig,
  NessieSink as NessieSinkConfig,
  NessieSource as NessieSourceConfig,
} from '@brokkr/contract/dataflow/connectors/iceberg.ts'
import type { SinkConnector, SourceConnector } from '../connector.ts'
import { toCheckContext, toSampleContext } from '../preview-contexts.ts'
import { IcebergTableSink } from './sink.ts'
import { IcebergTableSource } from './source.ts'

const sourceOf = <C extends IcebergSourceConfig | NessieSourceConfig>(type: 'iceberg' | 'nessie'): SourceConnector<C> => ({
  open: (config, context) => new IcebergTableSource(type, config, context),
  /** The first rows of the current snapshot. */
  async sample(config, context, count) {
    const source = new IcebergTableSource(type, { ...config, startSnapshotID: undefined }, toSampleContext(context))
    try {
      await source.connect()
      for await (const { messages } of source.read({ isSpent: false, room: async () => undefined })) return messages.slice(0, count)
      return []
    } finally {
      await source.close()
    }
  },
})

const sinkOf = <C extends IcebergSinkConfig | NessieSinkConfig>(): SinkConnector<C> => ({
  open: (config, context) => new IcebergTableSink(config, context),
  async check(config, context, records) {
    const sink = new IcebergTableSink(config, toCheckContext(context))
    try {
      await sink.connect()
      return await sink.tryOut(records)
    } finally {
      await sink.close()
    }
  },
})

export const nessieSource: SourceConnector<NessieSourceConfig> = sourceOf('nessie')
export const icebergSource: SourceConnector<IcebergSourceConfig> = sourceOf('iceberg')
export const nessieSink: SinkConnector<NessieSinkConfig> = sinkOf()
export const icebergSink: SinkConnector<IcebergSinkConfig> = sinkOf()
