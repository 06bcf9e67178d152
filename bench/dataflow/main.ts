// [D84] Flows beside bare loops that do the same with the same clients, on the same servers, interleaved: rate and memory. Ratios
// are bars (0.7 of the rate, 1.3 times the memory); everything else is an observation.
import { mkdtempSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { processorFlags } from '@brokkr/dataflow/operator/desired/deployment.ts'
import { privateClickhouse } from '@brokkr/testing/servers/clickhouse.ts'
import { privateKafka, uniqueName } from '@brokkr/testing/servers/kafka.ts'
import { privateNessie } from '@brokkr/testing/servers/nessie.ts'
import { privatePostgres } from '@brokkr/testing/servers/postgres.ts'
import { privateS3 } from '@brokkr/testing/servers/s3.ts'
import { Admin, Producer } from '@platformatic/kafka'
import { type Measured, measure } from '../child.ts'
import { percentile, tell } from '../figures.ts'
import { bundled } from './bundled.ts'
import { latencies } from './latency.ts'
import { orderText, transformations } from './payload.ts'

const count = Number(process.env['BENCH_MESSAGES'] ?? 200_000)
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3)
/** As a processor ships. */
const flags = process.env['BENCH_FLAGS']?.split(' ').filter(Boolean) ?? processorFlags
const program = await bundled()
const dir = mkdtempSync(join(tmpdir(), 'bench-dataflow-'))
const [kafka, postgres] = [await privateKafka(), await privatePostgres({ fsync: true })]
const broker = kafka.address.plaintext
const database = await postgres.database()
const clickhouse = await (await privateClickhouse()).database()
const s3 = (await privateS3()).address
const lake = await (await privateNessie(s3)).namespace()
const sql = await database.connect()
const admin = new Admin({ clientId: 'bench', bootstrapBrokers: [broker] })
const makeTopic = async (): Promise<string> => {
  const topic = uniqueName('bench')
  await admin.createTopics({ topics: [topic], partitions: 3, replicas: 1 })
  return topic
}

const orders = await makeTopic()
const producer = new Producer({ clientId: 'bench', bootstrapBrokers: [broker], idempotent: true })
for (let at = 0; at < count; at += 1000) {
  const messages = Array.from({ length: Math.min(1000, count - at) }, (_, one) => ({
    topic: orders,
    key: Buffer.from(String(at + one)),
    value: Buffer.from(orderText(at + one)),
  }))
  await producer.send({ messages })
}
await producer.close()

interface Run extends Measured {
  readonly rate: number
  readonly written: number
}
const run = async (args: readonly string[]): Promise<Run> => {
  const measured = await measure(process.execPath, args)
  const own = JSON.parse(measured.output.trim().split('\n').at(-1) ?? '{}') as { seconds: number; read: number; written: number }
  return { ...measured, rate: own.read / own.seconds, written: own.written }
}
const ours = (spec: object, until?: number): Promise<Run> => {
  const name = uniqueName('flow')
  const file = join(dir, `${name}.json`)
  writeFileSync(file, JSON.stringify(spec))
  return run([...flags, program('ours'), file, name, ...(until === undefined ? [] : [String(until)])])
}
const bare = (name: string, ...args: string[]): Promise<Run> => run([program(name), ...args])

const kafkaPart = (topic: string) => ({ type: 'kafka', config: { brokers: [broker], topic } })
const table = async (): Promise<string> => {
  const name = uniqueName('t').replaceAll('-', '_')
  await sql.query(
    `create table ${name} (id int primary key, status text, customer jsonb, card text, items jsonb, note text, created timestamptz)`,
  )
  return name
}
/** Rows that a slot and a publication have not yet told. */
const captured = async (): Promise<{ table: string; slot: string; publication: string }> => {
  const name = uniqueName('c').replaceAll('-', '_')
  await sql.query(`create table ${name} (id int primary key, status text, note text, amount numeric, created timestamptz)`)
  await sql.query(`create publication ${name} for table ${name}`)
  await sql.query(`select pg_create_logical_replication_slot($1, 'pgoutput')`, [name])
  await sql.query(
    `insert into ${name} select n, 'open', repeat('leave it at the door ', 30), n / 7.0, now() from generate_series(1, ${count}) n`,
  )
  return { table: name, slot: name, publication: name }
}

const source = uniqueName('s').replaceAll('-', '_')
await sql.query(`create table ${source} (id int primary key, status text, note text, amount numeric, updated_at timestamptz not null)`)
await sql.query(
  `insert into ${source} select n, 'open', repeat('leave it at the door ', 10), n, now() + n * interval '1 ms' from generate_series(1, ${count}) n`,
)
await sql.query(`create index on ${source} (updated_at, id)`)
const clickhouseTable = async (): Promise<string> => {
  const name = uniqueName('t').replaceAll('-', '_')
  const columns =
    'id Int64, status String, note String, amount Decimal(20, 4), updated_at DateTime64(6), _brokkr_batch LowCardinality(String)'
  await clickhouse.run(
    `create table ${name} (${columns}) engine = MergeTree order by id settings non_replicated_deduplication_window = 1000`,
  )
  return name
}

const chains: { readonly name: string; bare(): Promise<Run>; ours(): Promise<Run> }[] = [
  {
    name: 'kafka → filter, mask, timestamp → kafka',
    bare: async () => bare('kafka-to-kafka', broker, orders, await makeTopic(), String(count)),
    ours: async () => ours({ source: kafkaPart(orders), sink: kafkaPart(await makeTopic()), transformations }),
  },
  {
    name: 'kafka → postgresql upsert',
    bare: async () => bare('kafka-to-postgresql', broker, orders, database.url, await table(), String(count)),
    ours: async () => {
      const sink = { type: 'postgresql', config: { connectionString: database.url, table: await table(), upsertMode: true } }
      return ours({ source: kafkaPart(orders), sink })
    },
  },
  {
    name: 'cdc → kafka',
    bare: async () => {
      const { slot, publication } = await captured()
      return bare('cdc-to-kafka', database.url, slot, publication, broker, await makeTopic(), String(count))
    },
    ours: async () => {
      const { table: name, slot, publication } = await captured()
      const config = {
        connectionString: database.url,
        tables: [`public.${name}`],
        slotName: slot,
        publicationName: publication,
        snapshotMode: 'never',
      }
      return ours({ source: { type: 'postgresql-cdc', config }, sink: kafkaPart(await makeTopic()) }, count)
    },
  },
  {
    name: 'postgresql → clickhouse',
    bare: async () => {
      const server = `${clickhouse.server}/?database=${clickhouse.name}`
      return bare('postgresql-to-clickhouse', database.url, source, server, await clickhouseTable(), String(count))
    },
    ours: async () => {
      const reading = { connectionString: database.url, table: source, readBatchSize: 10_000, overlapSeconds: 0 }
      const sink = { type: 'clickhouse', config: { connectionString: clickhouse.url, table: await clickhouseTable() } }
      return ours({ source: { type: 'postgresql', config: reading }, sink })
    },
  },
  {
    name: 'kafka → iceberg',
    bare: async () =>
      bare('kafka-to-iceberg', broker, orders, `${s3.endpoint}/${s3.bucket}`, s3.accessKey, s3.secretAccessKey, String(count)),
    ours: async () => {
      const { url: baseURL, warehouse, namespace } = lake
      const keys = { s3Endpoint: s3.endpoint, s3Region: s3.region, accessKey: s3.accessKey, secretAccessKey: s3.secretAccessKey }
      const config = { baseURL, warehouse, namespace, ...keys, table: uniqueName('t').replaceAll('-', '_'), autoCreateTable: true }
      return ours({ source: kafkaPart(orders), sink: { type: 'nessie', config } })
    },
  },
]

const chainFilter = process.env['BENCH_CHAIN']
for (const chain of chains.filter(({ name }) => chainFilter === undefined || name.includes(chainFilter))) {
  const results: { readonly bare: Run[]; readonly ours: Run[] } = { bare: [], ours: [] }
  for (let round = 0; round < rounds; round += 1) {
    results.bare.push(await chain.bare())
    results.ours.push(await chain.ours())
  }
  const median = (of: readonly Run[], pick: (one: Run) => number): number => percentile(of.map(pick), 0.5)
  const rateRatio = median(results.ours, ({ rate }) => rate) / median(results.bare, ({ rate }) => rate)
  const memory = median(results.ours, ({ peakMib }) => peakMib) / median(results.bare, ({ peakMib }) => peakMib)
  for (const [who, runs] of Object.entries(results))
    tell(
      `  ${chain.name} (${who})`,
      `${Math.round(median(runs, ({ rate }) => rate))} msg/s · ${((median(runs, ({ cpuSeconds }) => cpuSeconds) / count) * 1e6).toFixed(1)} CPU s per million · ${Math.round(median(runs, ({ peakMib }) => peakMib))} MiB`,
    )
  const isKept = rateRatio >= 0.7 && memory <= 1.3
  tell(
    `${isKept ? '✔' : '✖'} ${chain.name}`,
    `${rateRatio.toFixed(2)} of the bare loop (≥ 0.7) · ${memory.toFixed(2)} × its memory (≤ 1.3)`,
  )
  if (!isKept) process.exitCode = 1
}

if (chainFilter === undefined || chainFilter === 'latency') {
  const [plain, flow] = [await latencies('bare', { broker, makeTopic, program }), await latencies('ours', { broker, makeTopic, program })]
  const ratio = percentile(flow, 0.99) / percentile(plain, 0.99)
  tell('  10 msg/s, kafka → kafka (bare)', `p50 ${percentile(plain, 0.5).toFixed(1)} ms · p99 ${percentile(plain, 0.99).toFixed(1)} ms`)
  tell('  10 msg/s, kafka → kafka (ours)', `p50 ${percentile(flow, 0.5).toFixed(1)} ms · p99 ${percentile(flow, 0.99).toFixed(1)} ms`)
  tell(`${ratio <= 3 ? '✔' : '✖'} p99 at 10 msg/s`, `${ratio.toFixed(2)} × the bare loop's (≤ 3)`)
  if (ratio > 3) process.exitCode = 1
}
await admin.close()
await sql.end()
process.exit()
