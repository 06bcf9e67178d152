// The bare loop for few messages: each one is changed and sent on as it comes.
import { CompressionAlgorithms, Consumer, Producer } from '@platformatic/kafka'
import { transformBare } from '../dataflow/payload.ts'

const [broker, from, to] = process.argv.slice(2) as [string, string, string]
const client = { clientId: 'bare', bootstrapBrokers: [broker] }
const consumer = new Consumer({
  ...client,
  groupId: `bare-${process.pid}`,
  autocommit: false,
  minBytes: 1,
  maxBytes: 8 << 20,
  maxWaitTime: 500,
})
const producer = new Producer({
  ...client,
  idempotent: true,
  compression: CompressionAlgorithms.LZ4,
  maxInflights: 1,
  autocreateTopics: false,
})
for await (const message of await consumer.consume({ topics: [from], mode: 'earliest' })) {
  const value = transformBare(message.value)
  if (value !== undefined) await producer.send({ messages: [{ topic: to, key: message.key, value }] })
}
