// The bare loop: the same client with the same settings reads, changes and writes batches of a thousand, one in the air while the next
// fills. No tracker, no metrics, no promise about what happens when anything fails.
import { CompressionAlgorithms, Consumer, compatibilityPartitioner, Producer } from '@platformatic/kafka'
import { transformBare } from '../dataflow/payload.ts'

const [broker, from, to, countText] = process.argv.slice(2) as [string, string, string, string]
const client = { clientId: 'bare', bootstrapBrokers: [broker] }
const consumer = new Consumer({
  ...client,
  groupId: `bare-${process.pid}`,
  autocommit: false,
  minBytes: 1,
  maxBytes: 8 << 20,
  maxBytesPerPartition: 1 << 20,
  maxWaitTime: 500,
})
const producer = new Producer({
  ...client,
  idempotent: true,
  compression: CompressionAlgorithms.LZ4,
  maxInflights: 1,
  autocreateTopics: false,
})
const stream = await consumer.consume({ topics: [from], mode: 'earliest' })
let batch: { topic: string; key?: Buffer; value: Buffer; partition: number }[] = []
let sending: Promise<unknown> = Promise.resolve()
let readCount = 0
let writtenCount = 0
let firstMs = 0
for await (const message of stream) {
  firstMs ||= performance.now()
  const value = transformBare(message.value)
  if (value !== undefined) {
    const record = { topic: to, key: message.key, value, partition: 0 }
    record.partition = compatibilityPartitioner(record, record.key)
    batch.push(record)
  }
  readCount += 1
  if (batch.length < 1000 && readCount < Number(countText)) continue
  await sending
  writtenCount += batch.length
  sending = producer.send({ messages: batch })
  batch = []
  if (readCount === Number(countText)) break
}
await sending
process.stdout.write(`${JSON.stringify({ seconds: (performance.now() - firstMs) / 1000, read: readCount, written: writtenCount })}\n`)
process.exit(0)
