// The values of a kafka source: bytes as they are, or Avro decoded into JSON. What cannot be decoded is a fault of its message, never
// of the batch; a registry that cannot be reached is a failure of reading.
import type { KafkaSource } from '@brokkr/contract/dataflow/connectors/kafka.ts'
import { type Message, newMessage } from '../message.ts'
import type { AvroReaders } from './avro-readers.ts'
import type { Batch, ConnectorContext, Fault } from './connector.ts'
import { ConnectorError } from './connector.ts'

export interface ValueDecoder {
  decode(messages: readonly Message[]): Promise<Batch>
  close(): Promise<void>
}

export async function valueDecoder(config: KafkaSource, context: ConnectorContext): Promise<ValueDecoder> {
  if (config.format !== 'avro') return { decode: async (messages) => ({ messages }), close: async () => undefined }
  // Only here: schemas and their registry weigh more than everything else that a flow loads.
  const { avroReaders } = await import('./avro-readers.ts')
  const readers = await avroReaders(config, context)
  return { decode: (messages) => decodeAll(readers, messages), close: () => readers.close() }
}

async function decodeAll(readers: AvroReaders, messages: readonly Message[]): Promise<Batch> {
  const decoded: Message[] = []
  const faults = new Map<number, Fault>()
  for (const message of messages) {
    const outcome = message.raw === undefined ? { message } : await decodeOne(readers, message)
    if ('fault' in outcome) faults.set(decoded.length, outcome.fault)
    decoded.push('fault' in outcome ? message : outcome.message)
  }
  return faults.size === 0 ? { messages: decoded } : { messages: decoded, faults }
}

async function decodeOne(readers: AvroReaders, message: Message): Promise<{ message: Message } | { fault: Fault }> {
  try {
    const json = await readers.decode(message.raw!)
    const { raw, key, metadata, position, partition } = message
    return { message: newMessage({ raw, json, key, metadata, position, partition }) }
  } catch (thrown) {
    if (thrown instanceof ConnectorError && thrown.class === 'record') return { fault: { type: 'decode', message: thrown.message } }
    throw thrown
  }
}
