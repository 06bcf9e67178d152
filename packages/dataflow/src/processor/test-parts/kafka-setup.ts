// Topics and a group of a test's own, as parts of a flow's spec; and letters as people read them.
import { DeadLetter } from '@brokkr/contract/dataflow/dead-letter.ts'
import { kafka, uniqueName } from '@brokkr/testing/servers/kafka.ts'
import { drain, makeTopic, withAdmin } from '../../connectors/test-parts/kafka-topics.ts'

export interface KafkaSetup {
  readonly broker: string
  readonly from: string
  readonly to: string
  readonly dead: string
  readonly group: string
  readonly source: Connector
  readonly sink: Connector
  readonly errors: Connector
  readonly kafkaSink: (topic: string, more?: object) => Connector
}
export interface Connector {
  readonly type: string
  readonly config: Record<string, unknown>
}

export async function kafkaSetup(options: { partitions?: number; sinkConfig?: Record<string, string> } = {}): Promise<KafkaSetup> {
  const broker = (await kafka()).plaintext
  const partitions = options.partitions ?? 1
  const [from, to, dead] = [
    await makeTopic({ partitions }),
    await makeTopic({ partitions, config: options.sinkConfig ?? {} }),
    await makeTopic(),
  ]
  const group = uniqueName('group')
  const kafkaSink = (topic: string, more: object = {}): Connector => ({ type: 'kafka', config: { brokers: [broker], topic, ...more } })
  const source = { type: 'kafka', config: { brokers: [broker], topic: from, consumerGroup: group } }
  return { broker, from, to, dead, group, source, sink: kafkaSink(to), errors: kafkaSink(dead), kafkaSink }
}

export const createTopic = (broker: string, topic: string): Promise<unknown> =>
  withAdmin(broker, (admin) => admin.createTopics({ topics: [topic], partitions: 1, replicas: 1 }))

export async function valuesOf(topic: string): Promise<(string | undefined)[]> {
  return (await drain(topic)).map(({ value }) => value)
}

export async function lettersOf(topic: string): Promise<DeadLetter[]> {
  return (await drain(topic)).map(({ value }) => DeadLetter.parse(JSON.parse(value ?? '')))
}

/** The largest batch that a topic takes. */
export const limitTopic = (broker: string, topic: string, bytes: number): Promise<unknown> =>
  withAdmin(broker, (admin) =>
    admin.incrementalAlterConfigs({
      resources: [
        { resourceType: 2, resourceName: topic, configs: [{ name: 'max.message.bytes', configOperation: 0, value: String(bytes) }] },
      ],
    }),
  )
