// kafka, both sides: what the pipeline opens, and what the preview may look at without leaving a trace.
import type { KafkaSink as SinkConfig, KafkaSource as SourceConfig } from '@brokkr/contract/dataflow/connectors/kafka.ts'
import type { ConnectorContext, Message, SinkConnector, SourceConnector } from './connector.ts'
import { ConnectorError } from './connector.ts'
import { kafkaOptions, readTopic, said, withAdmin } from './kafka-client.ts'
import { valueDecoder } from './kafka-decode.ts'
import { KafkaFetcher } from './kafka-fetcher.ts'
import { KafkaSink } from './kafka-sink.ts'
import { KafkaSource, type KafkaTuning, kafkaTuning } from './kafka-source.ts'

export const kafkaSource: SourceConnector<SourceConfig> = kafkaSourceWith({})

/** With other times than those that ship. */
export function kafkaSourceWith(tuning: Partial<KafkaTuning>): SourceConnector<SourceConfig> {
  return {
    open: (config, context) => new KafkaSource(config, context, { ...kafkaTuning, ...tuning }),
    sample,
  }
}

export const kafkaSink: SinkConnector<SinkConfig> = {
  open: (config, context) => new KafkaSink(config, context),
  /** Metadata and schema: a record that its encoder takes is one that Kafka takes, but for its size. */
  async check(config, context, records) {
    const source = { origin: '', compare: () => 0 }
    const role = 'main' as const
    const sink = new KafkaSink(
      { ...config, exactlyOnce: 'off' },
      { ...context, role, positionKey: '', source, epoch: 0, soleWriter: undefined, conflictsIgnored: () => undefined },
    )
    try {
      await sink.connect()
      return records.map((record) => sink.refusal(record))
    } finally {
      await sink.close()
    }
  },
}

/** The newest messages, without a group. */
async function sample(config: SourceConfig, context: ConnectorContext, count: number): Promise<readonly Message[]> {
  const topic = config.topic ?? ''
  const options = await kafkaOptions(config, context)
  await said({ topic, doing: 'open' }, () => withAdmin(options, (admin) => readTopic(admin, topic, context)))
  const fetcher = new KafkaFetcher(options, topic, config, () => undefined)
  const decoder = await valueDecoder(config, context)
  try {
    const messages = await said({ topic, doing: 'read' }, () => newest(fetcher, count))
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

async function newest(fetcher: KafkaFetcher, count: number): Promise<Message[]> {
  const [oldest, ends] = [await fetcher.offsets('earliest'), await fetcher.offsets('latest')]
  const each = Math.ceil(count / Math.max(1, ends.size))
  const partitions = [...ends].filter(([partition, end]) => end > (oldest.get(partition) ?? 0n))
  const wanted = partitions.map(([partition]) => partition)
  for (const [partition, end] of partitions) {
    const from = oldest.get(partition) ?? 0n
    fetcher.readFrom(partition, end - BigInt(each) > from ? end - BigInt(each) : from)
  }
  const found: Message[] = []
  for (const isRead = new Set<number>(); isRead.size < wanted.length && found.length < count; ) {
    const open = wanted.filter((partition) => !isRead.has(partition))
    for (const { messages } of await fetcher.next(open)) found.push(...messages)
    for (const partition of open) if ((fetcher.position(partition) ?? 0n) >= (ends.get(partition) ?? 0n)) isRead.add(partition)
  }
  return found.slice(0, count)
}
