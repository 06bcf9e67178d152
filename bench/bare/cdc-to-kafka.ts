// The bare loop: a slot is streamed and decoded by the library, each row goes out as JSON in batches of a thousand, one in the air while
// the next fills. Nothing is acknowledged before the end.
import { CompressionAlgorithms, Producer } from '@platformatic/kafka'
import { LogicalReplicationService, PgoutputPlugin } from 'pg-logical-replication'

const [url, slot, publication, broker, to, countText] = process.argv.slice(2) as [string, string, string, string, string, string]
const count = Number(countText)
const producer = new Producer({
  clientId: 'bare',
  bootstrapBrokers: [broker],
  idempotent: true,
  compression: CompressionAlgorithms.LZ4,
  maxInflights: 1,
  autocreateTopics: false,
})
const service = new LogicalReplicationService(
  { connectionString: url },
  { acknowledge: { auto: false, timeoutSeconds: 0 }, flowControl: { enabled: true } },
)
let batch: { topic: string; key: Buffer; value: Buffer }[] = []
let sending: Promise<unknown> = Promise.resolve()
let readCount = 0
let firstMs = 0
const completion = Promise.withResolvers<void>()
service.on('data', async (_lsn: string, log: { tag: string; new?: Record<string, unknown> }) => {
  if (log.tag !== 'insert' || log.new === undefined) return
  firstMs ||= performance.now()
  batch.push({ topic: to, key: Buffer.from(String(log.new['id'])), value: Buffer.from(JSON.stringify(log.new)) })
  readCount += 1
  if (batch.length < 1000 && readCount < count) return
  await sending
  sending = producer.send({ messages: batch })
  batch = []
  if (readCount === count) completion.resolve()
})
service.on('error', (error: Error) => completion.reject(error))
void service.subscribe(new PgoutputPlugin({ protoVersion: 1, publicationNames: [publication] }), slot)
await completion.promise
await sending
process.stdout.write(`${JSON.stringify({ seconds: (performance.now() - firstMs) / 1000, read: readCount, written: readCount })}\n`)
process.exit(0)
