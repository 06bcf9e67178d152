// Writes records to a topic. Key, headers and tombstones pass through; with exactlyOnce required, a batch and its source offsets are one
// transaction, fenced by the group's generation.
import { randomUUID } from 'node:crypto'
import type { KafkaSink as KafkaSinkConfig } from '@brokkr/contract/dataflow/connectors/kafka.ts'
import { isRawNumber, type Json } from '@brokkr/contract/dataflow/language/json.ts'
import { compileRead, type Read } from '@brokkr/contract/dataflow/language/read-path.ts'
import type { BaseOptions } from '@platformatic/kafka'
import { getPayload, payloadBytes } from '../../message/message.ts'
import type { Capabilities, Fault, Group, Partition, Position, Positions, Rec, Sink, SinkContext } from '../connector.ts'
import { ConnectorError } from '../connector.ts'
import { PreparedBatch } from '../prepared-batch.ts'
import type { EncodeAvro } from './avro/writer.ts'
import { kafkaOptions, readTopic, withAdmin, withErrorContext } from './client.ts'
import { toKafkaHeaders } from './headers.ts'
import { KafkaProducer, type KafkaRecord } from './producer.ts'

export class KafkaSink implements Sink {
  readonly #config: KafkaSinkConfig
  readonly #context: SinkContext
  readonly #topic: string
  readonly #readKey: Read | undefined
  #client: BaseOptions | undefined
  #producer: KafkaProducer | undefined
  readonly #prepared = new PreparedBatch<readonly KafkaRecord[]>()
  #encode: ((record: Rec) => Buffer | undefined) | undefined
  /** Set while it is unknown whether the last transaction was committed. */
  #isUncertain = false

  constructor(config: KafkaSinkConfig, context: SinkContext) {
    this.#config = config
    this.#context = context
    this.#topic = config.topic ?? ''
    this.#readKey = config.keyField === undefined ? undefined : compileRead(config.keyField.segments)
  }

  async connect(): Promise<Capabilities> {
    this.#client = await kafkaOptions(this.#config, this.#context)
    await withErrorContext({ topic: this.#topic, doing: 'open' }, () =>
      withAdmin(this.#client!, (admin) => readTopic(admin, this.#topic, this.#context)),
    )
    this.#encode ??= await this.#encoder()
    await this.#makeProducer(this.#client)
    if (this.#isTransactional()) return { exactlyOnce: 'Transactions', isUpsert: false }
    // Dead letters have their id as key, so a repeat is recognizable.
    return { exactlyOnce: 'AtLeastOnce', isUpsert: this.#context.role === 'errors' }
  }

  async write(batch: readonly Rec[], positions: Positions, signal?: AbortSignal): Promise<void> {
    await untilAborted(this.#write(batch, positions), signal)
  }

  async #write(batch: readonly Rec[], positions: Positions): Promise<void> {
    const records = this.#prepared.take(batch) ?? batch.map((record, index) => this.#toRecord(record, index))
    const producer = this.#ready()
    if (!this.#isTransactional()) return withErrorContext({ topic: this.#topic, doing: 'write to' }, () => producer.send(records))
    const offsets = positions as ReadonlyMap<number, number>
    if (this.#isUncertain && (await this.#isCommitted(producer, offsets))) return
    const group = this.#requireGroup(offsets)
    this.#isUncertain = true
    await withErrorContext({ topic: this.#topic, doing: 'write to' }, () => producer.sendInTransaction(records, group, offsets))
    this.#isUncertain = false
  }

  /** Never throws: a record that cannot be encoded fails in `write`. */
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

  /** The group stores the positions, and the source reads from there. */
  async highWater(): Promise<Map<Partition, Position>> {
    return new Map()
  }

  async forget(): Promise<void> {}

  async close(): Promise<void> {
    const producer = this.#producer
    this.#producer = undefined
    await producer?.discard()
  }

  /** Why the sink would reject a record; undefined if it accepts it. */
  refusal(record: Rec): Fault | undefined {
    try {
      this.#toRecord(record, 0)
      return undefined
    } catch (thrown) {
      if (!(thrown instanceof ConnectorError)) throw thrown
      return { type: thrown.type, message: thrown.message }
    }
  }

  /** A killed process leaves a transaction open: until it ends, consumers do not see later records and the group's offsets are
   *  undecided. A sole writer ends it at once; otherwise the coordinator does after its timeout. */
  async #makeProducer(client: BaseOptions): Promise<void> {
    if (this.#producer !== undefined) return
    const { flow, soleWriter } = this.#context
    const isSole = this.#isTransactional() && soleWriter !== undefined
    const name = isSole ? soleWriter : `${flow.namespace}-${flow.name}-${randomUUID()}`
    const producer = new KafkaProducer(client, this.#settings(), `brokkr-${name}`)
    if (isSole) await withErrorContext({ topic: this.#topic, doing: 'end the last transaction to' }, () => producer.settle())
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
    // Loaded on demand: Avro and the registry client need more memory than the rest of a flow.
    const avro = this.#config.format === 'avro' ? await import('./avro/writer.ts') : undefined
    const encode: EncodeAvro | undefined = await avro?.createAvroWriter(this.#config, this.#context)
    return (record) => {
      const bytes = payloadBytes(record)
      if (bytes === null) return undefined
      return encode === undefined ? asBuffer(bytes) : encode(getPayload(record))
    }
  }

  #toRecord(record: Rec, index: number): KafkaRecord {
    try {
      return { key: this.#buildKey(record), value: this.#encode!(record), headers: toKafkaHeaders(record.metadata) }
    } catch (thrown) {
      if (!(thrown instanceof ConnectorError) || thrown.class !== 'record') throw thrown
      throw new ConnectorError({ class: 'record', type: thrown.type, recordIndex: index }, thrown.message)
    }
  }

  #buildKey(record: Rec): Buffer | undefined {
    if (this.#readKey !== undefined) {
      const keyValue = this.#readKey(getPayload(record))
      return keyValue === undefined || keyValue === null ? undefined : Buffer.from(keyText(keyValue))
    }
    if (record.key !== undefined) return asBuffer(record.key)
    const key = record.metadata['key']
    return typeof key === 'string' ? Buffer.from(key) : undefined
  }

  /** The batch belongs to the generation that read it: offsets of a revoked partition must not be committed. */
  #requireGroup(offsets: ReadonlyMap<number, number>): Group {
    const group = this.#context.source.group?.()
    const revokedPartitions =
      group === undefined ? [...offsets.keys()] : [...offsets.keys()].filter((partition) => !group.partitions.includes(partition))
    if (group !== undefined && revokedPartitions.length === 0) return group
    throw new ConnectorError(
      { class: 'transient', type: 'transient' },
      `partitions ${revokedPartitions.join(', ')} are no longer assigned to this member`,
    )
  }

  /** Whether the batch was committed: its offsets are part of the same transaction. Waits until the transaction is decided. */
  async #isCommitted(producer: KafkaProducer, offsets: ReadonlyMap<number, number>): Promise<boolean> {
    const group = this.#requireGroup(offsets)
    await withErrorContext({ topic: this.#topic, doing: 'write to' }, () => producer.settle())
    const partitionIndexes = [...offsets.keys()]
    const groups = await withErrorContext({ topic: group.topic, doing: 'look at the offsets of' }, () =>
      withAdmin(this.#client!, (admin) =>
        admin.listConsumerGroupOffsets({
          groups: [{ groupId: group.groupId, topics: [{ name: group.topic, partitionIndexes }] }],
          requireStable: true,
        }),
      ),
    )
    const partitionOffsets = groups[0]?.topics[0]?.partitions ?? []
    const at = new Map(partitionOffsets.map(({ partitionIndex, committedOffset }) => [partitionIndex, committedOffset]))
    return partitionIndexes.every((partition) => (at.get(partition) ?? -1n) > BigInt(offsets.get(partition)!))
  }
}

const asBuffer = (bytes: Uint8Array): Buffer =>
  Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

function keyText(value: Json): string {
  if (typeof value === 'string') return value
  return isRawNumber(value) ? value.rawJSON : JSON.stringify(value)
}

/** The library has no cancellation, so the result of the batch is unknown, as after a lost connection. */
async function untilAborted(writing: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return writing
  const { promise, reject } = Promise.withResolvers<never>()
  const give = () => reject(new ConnectorError({ class: 'transient', type: 'context_canceled' }, 'the write was canceled'))
  signal.addEventListener('abort', give, { once: true })
  writing.catch(() => undefined)
  try {
    await Promise.race([writing, promise])
  } finally {
    signal.removeEventListener('abort', give)
  }
}
