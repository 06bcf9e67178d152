// Decodes values of a kafka source: bytes unchanged, or Avro to JSON. A value that cannot be decoded is a fault of its message; an
// unavailable registry fails the read.
import type { KafkaSource } from '@brokkr/contract/dataflow/connectors/kafka.ts'
import { type Message, newMessage } from '../../message/message.ts'
import type { Batch, ConnectorContext, Fault } from '../connector.ts'
import { ConnectorError } from '../connector.ts'
import type { AvroReaders } from './avro/readers.ts'

export interface ValueDecoder {
  decode(messages: readonly Message[]): Promise<Batch>
  close(): Promise<void>
}

export async function createValueDecoder(config: KafkaSource, context: ConnectorContext): Promise<ValueDecoder> {
  if (config.format !== 'avro') return { decode: async (messages) => ({ messages }), close: async () => undefined }
  // Loaded on demand: Avro and the registry client need more memory than the rest of a flow.
  const { createAvroReaders } = await import('./avro/readers.ts')
  const readers = await createAvroReaders(config, context)
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
