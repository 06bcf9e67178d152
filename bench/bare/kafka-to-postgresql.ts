// The bare loop: the same client reads, and batches of a thousand go into the table by one upsert over unnest, one in the air while the
// next fills. Arrays go in binary form, which is several times faster than the client's own. No tracker, no positions, no metrics.
import { Consumer } from '@platformatic/kafka'
import pg from 'pg'

const [broker, from, url, table, countText] = process.argv.slice(2) as [string, string, string, string, string]
const client = { clientId: 'bare', bootstrapBrokers: [broker] }
const settings = { autocommit: false, minBytes: 1, maxBytes: 8 << 20, maxBytesPerPartition: 1 << 20, maxWaitTime: 500 }
const consumer = new Consumer({ ...client, groupId: `bare-${process.pid}`, ...settings })
const database = new pg.Client({ connectionString: url })
await database.connect()
const stream = await consumer.consume({ topics: [from], mode: 'earliest' })
const columns = ['id', 'status', 'customer', 'card', 'items', 'note', 'created'] as const
const text = `insert into ${table} (${columns.join(', ')})
  select u.id::int, u.status, u.customer::jsonb, u.card, u.items::jsonb, u.note, u.created::timestamptz
  from unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[]) as u(${columns.join(', ')})
  on conflict (id) do update set ${columns
    .slice(1)
    .map((name) => `${name} = excluded.${name}`)
    .join(', ')}`
type Order = Record<(typeof columns)[number], unknown>
let batch: Order[] = []
let writing: Promise<unknown> = Promise.resolve()
let readCount = 0
let firstMs = 0
/** One dimension, no nulls, elements of type text. */
function textArray(values: readonly string[]): Buffer {
  const array = Buffer.allocUnsafe(values.reduce((bytes, value) => bytes + 4 + Buffer.byteLength(value), 20))
  for (const [at, number] of [1, 0, 25, values.length, 1].entries()) array.writeInt32BE(number, at * 4)
  let end = 20
  for (const value of values) {
    const bytes = array.write(value, end + 4)
    array.writeInt32BE(bytes, end)
    end += 4 + bytes
  }
  return array
}
const toText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value))
for await (const message of stream) {
  firstMs ||= performance.now()
  batch.push(JSON.parse(message.value.toString()) as Order)
  readCount += 1
  if (batch.length < 1000 && readCount < Number(countText)) continue
  const rows = batch
  batch = []
  const values = columns.map((name) => textArray(rows.map((row) => toText(row[name]))))
  await writing
  writing = database.query({ name: 'upsert', text, values })
  if (readCount === Number(countText)) break
}
await writing
process.stdout.write(`${JSON.stringify({ seconds: (performance.now() - firstMs) / 1000, read: readCount, written: readCount })}\n`)
process.exit(0)
