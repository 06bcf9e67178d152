// Flows between tables of a real PostgreSQL at the limits of their batches and of their budget.
import { emptyDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, onTestFinished, test } from 'vitest'
import { startFlow } from './test-parts/real-flow.ts'

const limits = { limitMs: 60_000 }
const timeoutMs = 120_000

async function setup(rows: number, padBytes = 1) {
  const database = await emptyDatabase()
  const client = await database.connect()
  onTestFinished(() => client.end())
  await client.query(`create table origin (id int primary key, pad text, updated_at timestamptz default now());
    create table target (id int, pad text, updated_at timestamptz);
    insert into origin select n, repeat('x', ${padBytes}) from generate_series(1, ${rows}) n`)
  const place = { connectionString: database.url }
  const source = { type: 'postgresql', config: { ...place, table: 'origin', overlapSeconds: 0, pollInterval: 1 } }
  const sinkWith = (more: object) => ({ type: 'postgresql', config: { ...place, table: 'target', ...more } })
  const counts = async () =>
    (await client.query<{ n: number; d: number }>('select count(*)::int n, count(distinct id)::int d from target')).rows[0]!
  return { database, client, source, sinkWith, counts }
}
const batchesOf = (text: string): number => Number(/dataflow_sink_batch_size_count\{[^}]*\} (\d+)/.exec(text)?.[1] ?? 0)

test('a budget that is spent before a batch is full flushes it, without a timer as well', { timeout: timeoutMs }, async () => {
  const { source, sinkWith, counts } = await setup(1500, 2000)
  const sink = sinkWith({ batchSize: 10_000, batchBytes: '64Mi', batchFlushIntervalSeconds: 0 })
  const flow = startFlow({ source, sink, maxInFlightBytes: '1Mi' }, { isBounded: true })
  expect(await flow.done).toMatchObject({ exitCode: 0 })
  expect(await counts()).toEqual({ n: 1500, d: 1500 })
})

test('a sink without a batch size collects records until bytes or timer end the batch', { timeout: timeoutMs }, async () => {
  const { source, sinkWith, counts } = await setup(5000)
  const flow = startFlow({ source, sink: sinkWith({ batchSize: 0, batchFlushIntervalSeconds: 3600 }) }, { isBounded: true })
  expect(await flow.done).toMatchObject({ exitCode: 0 })
  expect(await counts()).toEqual({ n: 5000, d: 5000 })
  expect(batchesOf(await flow.metrics())).toBe(1)
})

test('a sink gets batches as large as its batch size asks for', { timeout: timeoutMs }, async () => {
  const { source, sinkWith, counts } = await setup(12_000)
  const flow = startFlow({ source, sink: sinkWith({ batchSize: 100_000, batchFlushIntervalSeconds: 3600 }) }, { isBounded: true })
  expect(await flow.done).toMatchObject({ exitCode: 0 })
  expect(await counts()).toEqual({ n: 12_000, d: 12_000 })
  expect(batchesOf(await flow.metrics())).toBe(1)
})

test('a locked target table is reported as stalled and written once afterwards', { timeout: timeoutMs }, async () => {
  const { database, client, source, sinkWith, counts } = await setup(100)
  const other = await database.connect()
  onTestFinished(() => other.end())
  await other.query('begin; lock table target in share mode')
  // Each attempt is given up while its backend still waits.
  const flow = startFlow({ source, sink: sinkWith({}) }, { settings: { flushMs: 1_000, stalledAfterMs: 300 } })
  await waitFor('the stall', () => flow.progress().flowing.reason === 'Stalled', limits)
  const waits = `select count(*)::int n from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
  await waitFor('three attempts to wait', async () => (await client.query<{ n: number }>(waits)).rows[0]!.n >= 3, limits)
  await other.query('commit')
  await waitFor('the rows', async () => (await counts()).n > 0 && flow.progress().openMessages === 0, limits)
  await waitFor('every attempt to end', async () => (await client.query<{ n: number }>(waits)).rows[0]!.n === 0, limits)
  expect(await counts()).toEqual({ n: 100, d: 100 })
  await flow.stop()
})
