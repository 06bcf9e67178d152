// Each chain of the benchmark, tiny, beside the bare loop it is compared with: both write the same records. The ratio is printed and
// judged by nobody here: the bars are the benchmark's, on a machine that does nothing else.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { startProgram } from '@brokkr/testing/program.ts'
import { kafka, uniqueName } from '@brokkr/testing/servers/kafka.ts'
import { callServers } from '@brokkr/testing/servers/owner/client.ts'
import { emptyDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import type pg from 'pg'
import { expect, test } from 'vitest'
import { drain, fill, makeTopic } from '../connectors/test-parts/kafka-topics.ts'

const timeoutMs = 300_000
const count = 2_500
const transformations = [
  { type: 'filter', config: { condition: "status != 'cancelled'" } },
  { type: 'mask', config: { fields: ['card'] } },
  { type: 'timestamp', config: { fieldName: 'processed_at' } },
]
const order = (id: number) => ({
  id,
  status: id % 20 === 0 ? 'cancelled' : 'open',
  customer: { id: id % 50, city: 'Trondheim' },
  card: '4111111111111111',
  items: [{ sku: `sku-${id % 97}`, price: 9.5 }],
  note: 'leave it at the "door"\\ \u00e5',
  created: '2026-01-02T03:04:05Z',
})

/** A program of bench/ until its end; what it prints last are its own figures. */
async function run(main: string, args: readonly string[]): Promise<{ written: number; rate: number }> {
  const program = await startProgram({
    name: uniqueName('bench'),
    main: `bench/${main}`,
    args,
    env: { PATH: process.env['PATH'] ?? '', PROCESSOR_ALLOW_LOOPBACK: 'true' },
  })
  const { code } = await program.exited
  if (code !== 0) throw new Error(`${main} ended with ${code}:\n${program.logTail(20)}`)
  const own = JSON.parse(program.text().trim().split('\n').at(-1) ?? '') as { seconds: number; read: number; written: number }
  expect(own.read).toBe(count)
  return { written: own.written, rate: own.read / own.seconds }
}

async function ours(spec: object, until?: number) {
  const [name, folder] = [uniqueName('flow'), await callServers('loan.folder', { kind: 'plain' })]
  const file = join(folder, `${name}.json`)
  await writeFile(file, JSON.stringify(spec), { mode: 0o600 })
  return run('dataflow/ours.ts', [file, name, ...(until === undefined ? [] : [String(until)])])
}

function tell(chain: string, bare: { rate: number; written: number }, flow: { rate: number; written: number }): void {
  expect(flow.written).toBe(bare.written)
  process.stdout.write(`${chain}: ${(flow.rate / bare.rate).toFixed(2)} of the bare loop with ${count} messages\n`)
}

const orders = async (broker: string): Promise<string> => {
  const topic = await makeTopic({ partitions: 3, brokers: broker })
  await fill(
    topic,
    Array.from({ length: count }, (_, id) => ({ key: String(id), value: JSON.stringify(order(id)) })),
  )
  return topic
}
const part = (broker: string, topic: string) => ({ type: 'kafka', config: { brokers: [broker], topic } })
/** By key and partition; what each run makes anew is left out. */
const records = async (topic: string) =>
  (await drain(topic))
    .map(({ partition, key, value }) => {
      const { processed_at: processed, ...rest } = JSON.parse(value!) as Record<string, unknown>
      return { partition, key, rest, isStamped: typeof processed === 'string' }
    })
    .toSorted((a, b) => Number(a.key) - Number(b.key))

test('[D84] kafka → filter, mask, timestamp → kafka writes the records of its bare loop', { timeout: timeoutMs }, async () => {
  const broker = (await kafka()).plaintext
  const [from, byBare, byFlow] = [await orders(broker), await makeTopic({ partitions: 3 }), await makeTopic({ partitions: 3 })]
  const bare = await run('bare/kafka-to-kafka.ts', [broker, from, byBare, String(count)])
  const flow = await ours({ source: part(broker, from), sink: part(broker, byFlow), transformations })
  const found = await records(byFlow)
  expect(found).toEqual(await records(byBare))
  expect(found).toHaveLength(count - Math.ceil(count / 20))
  expect(found[0]).toMatchObject({ key: '1', rest: { ...order(1), card: '***' }, isStamped: true })
  tell('kafka → kafka', bare, flow)
})

test('[D84] kafka → postgresql upsert writes the rows of its bare loop', { timeout: timeoutMs }, async () => {
  const broker = (await kafka()).plaintext
  const [from, database] = [await orders(broker), await emptyDatabase()]
  const client = await database.connect()
  for (const table of ['by_bare', 'by_flow'])
    await client.query(
      `create table ${table} (id int primary key, status text, customer jsonb, card text, items jsonb, note text, created timestamptz)`,
    )
  const bare = await run('bare/kafka-to-postgresql.ts', [broker, from, database.url, 'by_bare', String(count)])
  const sink = { type: 'postgresql', config: { connectionString: database.url, table: 'by_flow', upsertMode: true } }
  const flow = await ours({ source: part(broker, from), sink })
  expect(await differing(client)).toEqual([])
  expect((await client.query('select count(*)::int as n from by_flow')).rows).toEqual([{ n: count }])
  const { created, ...first } = order(1)
  expect((await client.query('select * from by_flow where id = 1')).rows).toEqual([{ ...first, created: new Date(created) }])
  tell('kafka → postgresql', bare, flow)
  await client.end()
})

const differing = async (client: pg.Client) =>
  (
    await client.query(
      'select * from ((table by_bare except table by_flow) union all (table by_flow except table by_bare)) as only_one limit 3',
    )
  ).rows

test('[D84] cdc → kafka writes the records of its bare loop', { timeout: timeoutMs }, async () => {
  const broker = (await kafka()).plaintext
  const [byBare, byFlow, database] = [await makeTopic(), await makeTopic(), await emptyDatabase()]
  const client = await database.connect()
  const slots = ['bare', 'flow'].map((who) => `${who}_${database.name}`)
  await client.query('create table captured (id int primary key, status text, note text, ok boolean)')
  for (const slot of slots) {
    await client.query(`create publication ${slot} for table captured`)
    await client.query(`select pg_create_logical_replication_slot($1, 'pgoutput')`, [slot])
  }
  await client.query(`insert into captured select n, 'open', 'leave it at the "door"', n % 2 = 0 from generate_series(1, ${count}) n`)
  const bare = await run('bare/cdc-to-kafka.ts', [database.url, slots[0]!, slots[0]!, broker, byBare, String(count)])
  const config = {
    connectionString: database.url,
    tables: ['public.captured'],
    slotName: slots[1],
    publicationName: slots[1],
    snapshotMode: 'never',
  }
  const flow = await ours({ source: { type: 'postgresql-cdc', config }, sink: part(broker, byFlow) }, count)
  const values = async (topic: string) => (await drain(topic)).map(({ value }) => JSON.parse(value!) as object)
  const found = await values(byFlow)
  expect(found).toEqual(await values(byBare))
  expect(found[0]).toEqual({ id: 1, status: 'open', note: 'leave it at the "door"', ok: false })
  tell('cdc → kafka', bare, flow)
  // A slot would keep the server's log and the database; a process that has ended holds its own for another moment.
  for (const slot of slots)
    await waitFor('the slot to be free', () => client.query('select pg_drop_replication_slot($1)', [slot]).then(() => true))
  await client.end()
})
