// Writes records to a topic. Key, headers and tombstones pass through; with exactlyOnce required a batch and the offsets of what it was
// made of are one transaction, fenced by the group's generation.
import { randomUUID } from 'node:crypto'
import type { KafkaSink as KafkaSinkConfig } from '@brokkr/contract/dataflow/connectors/kafka.ts'
import { isRawNumber, type Json } from '@brokkr/contract/dataflow/json.ts'
import { compileRead, type Read } from '@brokkr/contract/dataflow/read-path.ts'
import type { BaseOptions } from '@platformatic/kafka'
import { payloadBytes, payloadOf } from '../message.ts'
import type { EncodeAvro } from './avro-writer.ts'
import type { Capabilities, Fault, Group, Partition, Position, Positions, Rec, Sink, SinkContext } from './connector.ts'
import { ConnectorError } from './connector.ts'
import { kafkaOptions, readTopic, said, withAdmin } from './kafka-client.ts'
import { headersOf } from './kafka-headers.ts'
import { KafkaProducer, type KafkaRecord } from './kafka-producer.ts'
import { Prepared } from './prepared.ts'

export class KafkaSink implements Sink {
  readonly #config: KafkaSinkConfig
  readonly #context: SinkContext
  readonly #topic: string
  readonly #readKey: Read | undefined
  #client: BaseOptions | undefined
  #producer: KafkaProducer | undefined
  readonly #prepared = new Prepared<readonly KafkaRecord[]>()
  #encode: ((record: Rec) => Buffer | undefined) | undefined
  /** Set while nobody knows whether the last transaction was committed. */
  #isUncertain = false

  constructor(config: KafkaSinkConfig, context: SinkContext) {
    this.#config = config
    this.#context = context
    this.#topic = config.topic ?? ''
    this.#readKey = config.keyField === undefined ? undefined : compileRead(config.keyField.segments)
  }

  async connect(): Promise<Capabilities> {
    this.#client = await kafkaOptions(this.#config, this.#context)
    await said({ topic: this.#topic, doing: 'open' }, () =>
      withAdmin(this.#client!, (admin) => readTopic(admin, this.#topic, this.#context)),
    )
    this.#encode ??= await this.#encoder()
    await this.#makeProducer(this.#client)
    if (this.#isTransactional()) return { exactlyOnce: 'Transactions', isUpsert: false }
    // Letters have their id as key, and a repeat is the same letter.
    return { exactlyOnce: 'AtLeastOnce', isUpsert: this.#context.role === 'errors' }
  }

  async write(batch: readonly Rec[], positions: Positions, signal?: AbortSignal): Promise<void> {
    await untilAborted(this.#write(batch, positions), signal)
  }

  async #write(batch: readonly Rec[], positions: Positions): Promise<void> {
    const records = this.#prepared.take(batch) ?? batch.map((record, index) => this.#toRecord(record, index))
    const producer = this.#ready()
    if (!this.#isTransactional()) return said({ topic: this.#topic, doing: 'write to' }, () => producer.send(records))
    const offsets = positions as ReadonlyMap<number, number>
    if (this.#isUncertain && (await this.#isCommitted(producer, offsets))) return
    const group = this.#groupOf(offsets)
    this.#isUncertain = true
    await said({ topic: this.#topic, doing: 'write to' }, () => producer.sendInTransaction(records, group, offsets))
    this.#isUncertain = false
  }

  /** A record that cannot be written says so when it is. */
  prepare(batch: readonly Rec[]): void {
    try {
      this.#prepared.keep(
        batch,
        batch.map((record, index) => this.#toRecord(record, index)),
      )
    } catch {
      this.#prepared.keep([], undefined)
    }
  }

  /** The group keeps the positions, and the source reads from there. */
  async highWater(): Promise<Map<Partition, Position>> {
    return new Map()
  }

  async forget(): Promise<void> {}

  async close(): Promise<void> {
    const producer = this.#producer
    this.#producer = undefined
    await producer?.discard()
  }

  /** Why the sink itself would refuse a record; undefined when it would not. */
  refusal(record: Rec): Fault | undefined {
    try {
      this.#toRecord(record, 0)
      return undefined
    } catch (thrown) {
      if (!(thrown instanceof ConnectorError)) throw thrown
      return { type: thrown.type, message: thrown.message }
    }
  }

  /** A process that was killed leaves a transaction open: until that ends, nobody sees what lies behind it, and the group's offsets
   *  are undecided. Whoever writes alone ends it at once; else the coordinator does, after its time. */
  async #makeProducer(client: BaseOptions): Promise<void> {
    if (this.#producer !== undefined) return
    const { flow, soleWriter } = this.#context
    const isSole = this.#isTransactional() && soleWriter !== undefined
    const name = isSole ? soleWriter : `${flow.namespace}-${flow.name}-${randomUUID()}`
    const producer = new KafkaProducer(client, this.#settings(), `brokkr-${name}`)
    if (isSole) await said({ topic: this.#topic, doing: 'end the last transaction to' }, () => producer.settle())
    this.#producer = producer
  }

  #isTransactional(): boolean {
    return this.#config.exactlyOnce === 'required' && this.#context.role !== 'errors'
  }

  #ready(): KafkaProducer {
    if (this.#producer === undefined) throw new ConnectorError({ class: 'transient', type: 'connection_error' }, 'not connected')
    return this.#producer
  }

  #settings() {
    const { idempotent, requiredAcks, compression, maxOpenRequests } = this.#config
    return { topic: this.#topic, idempotent: idempotent || this.#isTransactional(), acks: requiredAcks, compression, maxOpenRequests }
  }

  async #encoder(): Promise<(record: Rec) => Buffer | undefined> {
    // Loaded by flows that need it alone: with the registry's client it weighs more than all the rest.
    const avro = this.#config.format === 'avro' ? await import('./avro-writer.ts') : undefined
    const encode: EncodeAvro | undefined = await avro?.avroWriter(this.#config, this.#context)
    return (record) => {
      const bytes = payloadBytes(record)
      if (bytes === null) return undefined
      return encode === undefined ? asBuffer(bytes) : encode(payloadOf(record))
    }
  }

  #toRecord(record: Rec, index: number): KafkaRecord {
    try {
      return { key: this.#keyOf(record), value: this.#encode!(record), headers: headersOf(record.metadata) }
    } catch (thrown) {
      if (!(thrown instanceof ConnectorError) || thrown.class !== 'record') throw thrown
      throw new ConnectorError({ class: 'record', type: thrown.type, recordIndex: index }, thrown.message)
    }
  }

  #keyOf(record: Rec): Buffer | undefined {
    if (this.#readKey !== undefined) {
      const found = this.#readKey(payloadOf(record))
      return found === undefined || found === null ? undefined : Buffer.from(keyText(found))
    }
    if (record.key !== undefined) return asBuffer(record.key)
    const key = record.metadata['key']
    return typeof key === 'string' ? Buffer.from(key) : undefined
  }

  /** The batch belongs to the generation that read it: a partition that went to another member must not be moved by us. */
  #groupOf(offsets: ReadonlyMap<number, number>): Group {
    const group = this.#context.source.group?.()
    const lost =
      group === undefined ? [...offsets.keys()] : [...offsets.keys()].filter((partition) => !group.partitions.includes(partition))
    if (group !== undefined && lost.length === 0) return group
    throw new ConnectorError(
      { class: 'transient', type: 'transient' },
      `partitions ${lost.join(', ')} are not assigned to this member any more`,
    )
  }

  /** Whether the batch is in: its offsets are, for they stand or fall with it. Waits until a transaction is decided. */
  async #isCommitted(producer: KafkaProducer, offsets: ReadonlyMap<number, number>): Promise<boolean> {
    const group = this.#groupOf(offsets)
    await said({ topic: this.#topic, doing: 'write to' }, () => producer.settle())
    const partitionIndexes = [...offsets.keys()]
    const committed = await said({ topic: group.topic, doing: 'look at the offsets of' }, () =>
      withAdmin(this.#client!, (admin) =>
        admin.listConsumerGroupOffsets({
          groups: [{ groupId: group.groupId, topics: [{ name: group.topic, partitionIndexes }] }],
          requireStable: true,
        }),
      ),
    )
    const found = committed[0]?.topics[0]?.partitions ?? []
    const at = new Map(found.map(({ partitionIndex, committedOffset }) => [partitionIndex, committedOffset]))
    return partitionIndexes.every((partition) => (at.get(partition) ?? -1n) > BigInt(offsets.get(partition)!))
  }
}

const asBuffer = (bytes: Uint8Array): Buffer =>
  Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

function keyText(value: Json): string {
  if (typeof value === 'string') return value
  return isRawNumber(value) ? value.rawJSON : JSON.stringify(value)
}

/** The library cannot be interrupted; whether the batch is in is then unknown, as after any broken connection. */
async function untilAborted(writing: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return writing
  const { promise, reject } = Promise.withResolvers<never>()
  const give = () => reject(new ConnectorError({ class: 'transient', type: 'context_canceled' }, 'the write was given up'))
  signal.addEventListener('abort', give, { once: true })
  writing.catch(() => undefined)
  try {
    await Promise.race([writing, promise])
  } finally {
    signal.removeEventListener('abort', give)
  }
}
