// Writes batches to a topic: partitions as Java's client chooses them; in exactly-once flows one transaction per batch with the records and
// the group's offsets. A producer is discarded after a failed transaction, because its sequence numbers may be ahead of the broker's.
import {
  Admin,
  type BaseOptions,
  type CompressionAlgorithmValue,
  compatibilityPartitioner,
  type MessageToProduce,
  Producer,
  txnOffsetCommitV3,
} from '@platformatic/kafka'
import type { Group } from '../connector.ts'

type Transaction = Awaited<ReturnType<Producer['beginTransaction']>>

export interface ProducerSettings {
  readonly topic: string
  readonly idempotent: boolean
  readonly acks: 'all' | 'local' | 'none'
  readonly compression: CompressionAlgorithmValue
  readonly maxOpenRequests: number
}
export interface KafkaRecord {
  readonly key: Buffer | undefined
  /** Undefined is a tombstone. */
  readonly value: Buffer | undefined
  readonly headers: Map<Buffer, Buffer> | undefined
  readonly timestampMs?: number | undefined
}

const acks = { all: -1, local: 1, none: 0 } as const
/** The coordinator aborts a transaction that takes longer; a batch takes a small part of it. */
const transactionMs = 30_000

export class KafkaProducer {
  readonly #client: BaseOptions
  readonly #settings: ProducerSettings
  readonly #transactionalId: string
  #producer: Producer | undefined
  #coordinator: number | undefined
  #keyless = 0

  /** `name` must be unique at any time; the group's generation decides who may commit offsets. */
  constructor(client: BaseOptions, settings: ProducerSettings, name: string) {
    this.#client = client
    this.#settings = settings
    this.#transactionalId = name
  }

  async send(records: readonly KafkaRecord[]): Promise<void> {
    const { idempotent, acks: requiredAcks } = this.#settings
    const request = { messages: this.#messages(records), ...(idempotent ? {} : { acks: acks[requiredAcks] }) }
    await this.#ready().send(request)
  }

  /** Records and offsets atomically. `offsets`: last position of each partition. */
  async sendInTransaction(records: readonly KafkaRecord[], group: Group, offsets: ReadonlyMap<number, number>): Promise<void> {
    const producer = this.#ready()
    try {
      const transaction = await producer.beginTransaction()
      try {
        await this.#fill(transaction, records, group, offsets)
      } catch (thrown) {
        await transaction.abort().catch(() => undefined)
        throw thrown
      }
      await transaction.commit()
    } catch (thrown) {
      await this.discard()
      throw thrown
    }
  }

  /** Completes or aborts the transaction of an earlier producer; after that the group's offsets say which. */
  async settle(): Promise<void> {
    try {
      const transaction = await this.#ready().beginTransaction()
      await transaction.cancel()
    } catch (thrown) {
      await this.discard()
      throw thrown
    }
  }

  async discard(): Promise<void> {
    const producer = this.#producer
    this.#producer = undefined
    this.#coordinator = undefined
    await producer?.close(true).catch(() => undefined)
  }

  async #fill(
    transaction: Transaction,
    records: readonly KafkaRecord[],
    group: Group,
    offsets: ReadonlyMap<number, number>,
  ): Promise<void> {
    if (records.length > 0) await transaction.send({ messages: this.#messages(records) })
    await transaction.addConsumer({ groupId: group.groupId } as Parameters<typeof transaction.addConsumer>[0])
    const producer = this.#ready()
    const coordinator = (this.#coordinator ??= await findCoordinator(this.#client, group.groupId))
    const connection = (await producer.connectToBrokers([coordinator])).get(coordinator)
    if (connection === undefined || producer.producerId === undefined || producer.producerEpoch === undefined)
      throw new Error('the coordinator of the group cannot be reached')
    const partitions = [...offsets].map(([partitionIndex, last]) => ({
      partitionIndex,
      committedOffset: BigInt(last) + 1n,
      committedLeaderEpoch: -1,
      committedMetadata: null,
    }))
    const { producerId, producerEpoch } = producer
    const topics = [{ name: group.topic, partitions }]
    const who = [group.groupId, producerId, producerEpoch, group.generationId, group.memberId, null] as const
    await txnOffsetCommitV3.api.async(connection, this.#transactionalId, ...who, topics)
  }

  #messages(records: readonly KafkaRecord[]): MessageToProduce[] {
    const { topic } = this.#settings
    // Records without a key share a partition per batch; the next batch uses the next partition.
    const keyless = (this.#keyless = (this.#keyless + 1) & 0xff_ffff)
    return records.map(({ key, value, headers, timestampMs }) => {
      // All fields are set, so that records have one hidden class; the library treats undefined as absent.
      const message = {
        topic,
        key,
        value,
        partition: keyless,
        headers,
        timestamp: timestampMs === undefined ? undefined : BigInt(timestampMs),
      } as unknown as MessageToProduce & { partition: number }
      // The library takes the hash modulo the number of partitions, as Java does; its own hash differs from Java's for half of all keys.
      if (key !== undefined) message.partition = compatibilityPartitioner(message, key)
      return message
    })
  }

  #ready(): Producer {
    const { idempotent, compression, maxOpenRequests } = this.#settings
    this.#producer ??= new Producer({
      ...this.#client,
      idempotent,
      compression,
      autocreateTopics: false,
      maxInflights: maxOpenRequests,
      // Also the library's transaction timeout; with fewer than two retries it would retry without a limit.
      timeout: transactionMs,
      retries: 3,
      // No producer id yet. The library would send 0, and the broker would fence a second producer with the same transactional id.
      producerId: -1n,
      producerEpoch: -1,
      ...(idempotent ? { transactionalId: this.#transactionalId } : {}),
    })
    return this.#producer
  }
}

async function findCoordinator(client: BaseOptions, groupId: string): Promise<number> {
  const admin = new Admin({ ...client })
  try {
    const [coordinator] = await admin.findCoordinator({ keyType: 0, keys: [groupId] })
    if (coordinator === undefined) throw new Error(`group ${groupId} has no coordinator`)
    return coordinator.nodeId
  } finally {
    await admin.close().catch(() => undefined)
  }
}
