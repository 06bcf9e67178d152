// Topics of a test's own on the shared Kafka, filled and read with the bare client, so that what a connector does is seen by others.
import { kafka, uniqueName } from '@brokkr/testing/servers/kafka.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { Admin, Producer } from '@platformatic/kafka'
import type { Message } from '../connector.ts'
import { KafkaFetcher } from '../kafka/fetcher.ts'

export type Written = { key?: string | undefined; value?: string | undefined; headers?: Record<string, string>; partition?: number }
export type Found = {
  partition: number
  offset: number
  key: string | undefined
  value: string | undefined
  headers: Record<string, string>
}

/** At the shared server unless told. */
export async function makeTopic(options: { partitions?: number; config?: Record<string, string>; brokers?: string } = {}): Promise<string> {
  const topic = uniqueName('topic')
  const configs = Object.entries(options.config ?? {}).map(([name, value]) => ({ name, value }))
  await withAdmin(await brokersOf(options.brokers), async (admin) => {
    await admin.createTopics({ topics: [topic], partitions: options.partitions ?? 1, replicas: 1, configs })
    // On a loaded machine the metadata shows a new topic later.
    await waitFor(`the metadata of ${topic}`, () => admin.metadata({ topics: [topic], forceUpdate: true }), { limitMs: 60_000 })
  })
  return topic
}

export async function withAdmin<T>(brokers: string, work: (admin: Admin) => Promise<T>): Promise<T> {
  const admin = new Admin({ clientId: 'test', bootstrapBrokers: [brokers] })
  try {
    return await work(admin)
  } finally {
    await admin.close()
  }
}

/** Each message once: a topic that was just made has partitions whose leader is not there yet, and the client sends the whole request
 *  again for one of them. */
export async function fill(topic: string, messages: readonly Written[], brokers?: string): Promise<void> {
  const producer = new Producer({ clientId: 'test', bootstrapBrokers: [await brokersOf(brokers)], idempotent: true })
  try {
    for (let at = 0; at < messages.length; at += 1000) {
      const part = messages.slice(at, at + 1000).map(({ key, value, headers, partition }) => ({
        topic,
        ...(key === undefined ? {} : { key: Buffer.from(key) }),
        ...(value === undefined ? {} : { value: Buffer.from(value) }),
        ...(partition === undefined ? {} : { partition }),
        ...(headers === undefined ? {} : { headers: bytesOf(headers) }),
      }))
      await producer.send({ messages: part })
    }
  } finally {
    await producer.close()
  }
}

const bytesOf = (headers: Record<string, string>) => new Map(Object.entries(headers).map(([k, v]) => [Buffer.from(k), Buffer.from(v)]))

/** Everything that is there now, as a reader of committed data sees it, in partition order. Up to the end of the log, not of what is
 *  decided: behind a transaction that a killed writer left open lies what others committed, and a reader gets it once that has ended.
 *  Not by the library's own stream: that one hides committed records behind aborted ones. */
export async function drain(topic: string, options: { brokers?: string } = {}): Promise<Found[]> {
  const client = { clientId: 'test', bootstrapBrokers: [await brokersOf(options.brokers)] }
  const limits = { fetchMinBytes: 1, fetchMaxBytes: 8 << 20, maxPartitionFetchBytes: 1 << 20, consumerMaxWaitMs: 100 }
  const fetcher = new KafkaFetcher(client, topic, { ...limits, isolation: 'committed' }, () => undefined)
  const whole = new KafkaFetcher(client, topic, { ...limits, isolation: 'uncommitted' }, () => undefined)
  try {
    const ends = await whole.offsets('latest')
    for (const [partition, start] of await fetcher.offsets('earliest')) fetcher.readFrom(partition, start)
    const found: Found[] = []
    for (;;) {
      const open = [...ends].filter(([partition, end]) => (fetcher.position(partition) ?? 0n) < end).map(([partition]) => partition)
      if (open.length === 0) break
      for (const { messages } of await fetcher.next(open)) found.push(...messages.map(toTopicRecord))
    }
    return found.toSorted((a, b) => a.partition - b.partition || a.offset - b.offset)
  } finally {
    await Promise.all([fetcher.close(), whole.close()])
  }
}

function toTopicRecord({ partition, position, key, raw, metadata }: Message): Found {
  return {
    partition: partition as number,
    offset: position as number,
    key: key === undefined ? undefined : Buffer.from(key).toString(),
    value: raw === undefined ? undefined : Buffer.from(raw).toString(),
    headers: (metadata['headers'] ?? {}) as Record<string, string>,
  }
}

export async function committed(groupId: string, topic: string, brokers?: string): Promise<Record<number, number>> {
  const [group] = await withAdmin(await brokersOf(brokers), (admin) => admin.listConsumerGroupOffsets({ groups: [groupId] }))
  const partitions = group?.topics.find(({ name }) => name === topic)?.partitions ?? []
  return Object.fromEntries(partitions.map(({ partitionIndex, committedOffset }) => [partitionIndex, Number(committedOffset)]))
}

const brokersOf = async (given: string | undefined): Promise<string> => given ?? (await kafka()).plaintext
