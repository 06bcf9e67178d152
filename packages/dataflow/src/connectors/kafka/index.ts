// kafka connector: source and sink for the pipeline, and side-effect-free checks for the preview.
import type { KafkaSink as SinkConfig, KafkaSource as SourceConfig } from '@brokkr/contract/dataflow/connectors/kafka.ts'
import type { ConnectorContext, Message, SinkConnector, SourceConnector } from '../connector.ts'
import { ConnectorError } from '../connector.ts'
import { toCheckContext } from '../preview-contexts.ts'
import { kafkaOptions, readTopic, withAdmin, withErrorContext } from './client.ts'
import { KafkaFetcher } from './fetcher.ts'
import { KafkaSink } from './sink.ts'
import { KafkaSource, type KafkaTuning, kafkaTuning } from './source.ts'
import { createValueDecoder } from './value-decoder.ts'

export const kafkaSource: SourceConnector<SourceConfig> = kafkaSourceWith({})

/** For tests, with shorter times. */
export function kafkaSourceWith(tuning: Partial<KafkaTuning>): SourceConnector<SourceConfig> {
  return {
    open: (config, context) => new KafkaSource(config, context, { ...kafkaTuning, ...tuning }),
    sample,
  }
}

export const kafkaSink: SinkConnector<SinkConfig> = {
  open: (config, context) => new KafkaSink(config, context),
  /** Checks metadata and schema: Kafka accepts every record that the encoder accepts, except for its size. */
  async check(config, context, records) {
    const sink = new KafkaSink({ ...config, exactlyOnce: 'off' }, toCheckContext(context))
    try {
      await sink.connect()
      return records.map((record) => sink.refusal(record))
    } finally {
      await sink.close()
    }
  },
}

/** Newest messages, without a group. */
async function sample(config: SourceConfig, context: ConnectorContext, count: number): Promise<readonly Message[]> {
  const topic = config.topic ?? ''
  const options = await kafkaOptions(config, context)
  await withErrorContext({ topic, doing: 'open' }, () => withAdmin(options, (admin) => readTopic(admin, topic, context)))
  const fetcher = new KafkaFetcher(options, topic, config, () => undefined)
  const decoder = await createValueDecoder(config, context)
  try {
    const messages = await withErrorContext({ topic, doing: 'read' }, () => readLatest(fetcher, count))
    const { messages: decoded, faults } = await decoder.decode(messages)
    const fault = faults?.values().next().value
    if (fault !== undefined && faults?.size === decoded.length)
      throw new ConnectorError({ class: 'config', type: 'invalid_data' }, fault.message)
    return decoded.filter((_message, index) => faults?.has(index) !== true)
  } finally {
    await fetcher.close()
    await decoder.close()
  }
}

async function readLatest(fetcher: KafkaFetcher, count: number): Promise<Message[]> {
  const [starts, ends] = [await fetcher.offsets('earliest'), await fetcher.offsets('latest')]
  const each = Math.ceil(count / Math.max(1, ends.size))
  const partitions = [...ends].filter(([partition, end]) => end > (starts.get(partition) ?? 0n))
  const partitionIds = partitions.map(([partition]) => partition)
  for (const [partition, end] of partitions) {
    const from = starts.get(partition) ?? 0n
    fetcher.readFrom(partition, end - BigInt(each) > from ? end - BigInt(each) : from)
  }
  const latest: Message[] = []
  for (const isRead = new Set<number>(); isRead.size < partitionIds.length && latest.length < count; ) {
    const unread = partitionIds.filter((partition) => !isRead.has(partition))
    for (const { messages } of await fetcher.next(unread)) latest.push(...messages)
    for (const partition of unread) if ((fetcher.position(partition) ?? 0n) >= (ends.get(partition) ?? 0n)) isRead.add(partition)
  }
  return latest.slice(0, count)
}
