// The bare loop: the same client reads, and batches of a hundred thousand become one Parquet file each by the same library, one in the air
// while the next fills. No manifest and no commit, no checks of values, no bounds, no tracker, no metrics.
import { Consumer } from '@platformatic/kafka'
import { AwsClient } from 'aws4fetch'
import { parquetWriteBuffer } from 'hyparquet-writer'

const [broker, from, folder, accessKeyId, secretAccessKey, countText] = process.argv.slice(2) as [
  string,
  string,
  string,
  string,
  string,
  string,
]
const client = { clientId: 'bare', bootstrapBrokers: [broker] }
const settings = { autocommit: false, minBytes: 1, maxBytes: 8 << 20, maxBytesPerPartition: 1 << 20, maxWaitTime: 500 }
const consumer = new Consumer({ ...client, groupId: `bare-${process.pid}`, ...settings })
const store = new AwsClient({ accessKeyId, secretAccessKey, service: 's3', region: 'us-east-1' })
const stream = await consumer.consume({ topics: [from], mode: 'earliest' })
const texts = ['status', 'customer', 'card', 'items', 'note'] as const
type Order = Record<'id' | 'created' | (typeof texts)[number], unknown>
const toText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))
async function write(rows: readonly Order[], index: number): Promise<void> {
  const columnData = [
    { name: 'id', type: 'INT64' as const, data: rows.map(({ id }) => BigInt(id as number)) },
    ...texts.map((name) => ({ name, type: 'STRING' as const, data: rows.map((row) => toText(row[name])) })),
    { name: 'created', type: 'TIMESTAMP' as const, data: rows.map(({ created }) => new Date(created as string)) },
  ]
  const body = parquetWriteBuffer({ columnData, rowGroupSize: 100_000 })
  const answer = await store.fetch(`${folder}/bare-${process.pid}-${index}.parquet`, { method: 'PUT', body })
  if (!answer.ok) throw new Error(`HTTP ${answer.status}`)
}
let batch: Order[] = []
let bytes = 0
let files = 0
let writing: Promise<void> = Promise.resolve()
let readCount = 0
let firstMs = 0
for await (const message of stream) {
  firstMs ||= performance.now()
  batch.push(JSON.parse(message.value.toString()) as Order)
  bytes += message.value.length
  readCount += 1
  if (batch.length < 100_000 && bytes < 64 << 20 && readCount < Number(countText)) continue
  const rows = batch
  batch = []
  bytes = 0
  await writing
  writing = write(rows, (files += 1))
  if (readCount === Number(countText)) break
}
await writing
process.stdout.write(`${JSON.stringify({ seconds: (performance.now() - firstMs) / 1000, read: readCount, written: readCount })}\n`)
process.exit(0)
