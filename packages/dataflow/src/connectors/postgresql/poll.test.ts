// What polling costs, and what it does when rows are many or large.
// long: writes 150,000 rows
import type { JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import { emptyDatabase, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import type pg from 'pg'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import type { Batch } from '../connector.ts'
import { sourceConfig } from '../test-parts/configs.ts'
import { endlessBudget, nothingSeen, sourceContext } from '../test-parts/contexts.ts'
import { postgresqlSource } from './index.ts'

let database: TestDatabase
let admin: pg.Client
beforeEach(async () => {
  database = await emptyDatabase()
  admin = await database.connect()
})
afterEach(() => admin.end())

const config = (more: object) => sourceConfig('postgresql', { connectionString: database.url, table: 't', ...more })

async function readBatches(more: object = {}, stored?: JsonObject): Promise<Batch[]> {
  const source = postgresqlSource.open(config(more), sourceContext({ isBounded: true, stored }))
  const batches: Batch[] = []
  try {
    await source.connect()
    for await (const batch of source.read(endlessBudget)) batches.push(batch)
  } finally {
    await source.close()
  }
  return batches
}
const idsOf = (batches: readonly Batch[]) => batches.flatMap(({ messages }) => messages.map(({ metadata }) => metadata['id']))

test('an overlap of more than 100,000 rows is narrowed, and no row is emitted again', { timeout: 180_000 }, async () => {
  const rows = 101_000
  await admin.query(`create table t (id int primary key, updated_at timestamptz not null)`)
  await admin.query(`insert into t select i, now() from generate_series(1, ${rows}) i; create index on t (updated_at, id); analyze t`)
  const seen = nothingSeen()
  const stopping = new AbortController()
  const source = postgresqlSource.open(
    { ...config({ overlapSeconds: 5 }), pollIntervalMs: 50 },
    sourceContext({ signal: stopping.signal }, seen),
  )
  await source.connect()
  const counts = new Map<unknown, number>()
  const done = (async () => {
    for await (const { messages } of source.read(endlessBudget))
      for (const { metadata } of messages) counts.set(metadata['id'], (counts.get(metadata['id']) ?? 0) + 1)
  })()
  onTestFinished(async () => {
    stopping.abort()
    await done
    await source.close()
  })
  await waitFor('all rows', () => counts.size === rows)
  expect([...seen.conditions.keys()]).toEqual(['OverlapNarrowed'])
  // Between two new rows lies at least one whole reading of the overlap.
  for (const id of [rows + 1, rows + 2]) {
    await admin.query(`insert into t select ${id}, max(updated_at) + interval '1 ms' from t`)
    await waitFor('the new row', () => counts.has(id))
  }
  expect([...counts.values()].filter((count) => count > 1)).toEqual([])
  expect(seen.notices).toEqual([expect.stringMatching(/^OverlapNarrowed: more than 100000 rows/)])
  await admin.query(`insert into t select ${rows + 3}, max(updated_at) + interval '10 s' from t`)
  await waitFor('the condition to end', () => seen.conditions.size === 0)
})

test.each([
  ['of a column that can be null', 'timestamptz', `case when i % 3 = 0 then null else '2026-01-01'::timestamptz + i * interval '1 s' end`],
  ['of a column that cannot', 'timestamptz not null', `'2026-01-01'::timestamptz + i * interval '1 s'`],
])('polling reads by the index %s', async (_case, type, value) => {
  const rows = 12_000
  await admin.query(`create table t (id int primary key, created_at timestamptz not null, updated_at ${type})`)
  await admin.query(
    `insert into t select i, '2026-01-01'::timestamptz + i * interval '1 s', ${value} from generate_series(1, ${rows}) i;
     create index on t (updated_at, id); create index on t (created_at, id); analyze t`,
  )
  const ids = idsOf(await readBatches())
  expect(ids).toEqual(Array.from({ length: rows }, (_, index) => index + 1))
  // A session reports its reads when it ends.
  const read = await waitFor('the figures', async () => {
    const found = await admin.query<{ read: number }>(
      `select (seq_tup_read + idx_tup_fetch)::int as read from pg_stat_user_tables where relname = 't'`,
    )
    const count = found.rows[0]?.read ?? 0
    return count >= rows ? count : undefined
  })
  // Analyzing and both indexes read the table once each; scans of whole pages would read it a dozen times more.
  expect(read).toBeLessThan(7 * rows)
})

test('a page of large rows is bounded in bytes and loses no row', async () => {
  await admin.query(`create table t (id int primary key, created_at timestamptz, updated_at timestamptz, a text)`)
  await admin.query(`insert into t select i, now(), case when i % 2 = 0 then now() end, repeat('x', 300000) from generate_series(1, 40) i`)
  const batches = await readBatches()
  const sizes = batches.map(({ messages }) => messages.reduce((sum, { bytes }) => sum + bytes, 0))
  expect(Math.max(...sizes)).toBeLessThan((1 << 20) + 400_000)
  expect(idsOf(batches)).toEqual(Array.from({ length: 40 }, (_, index) => index + 1))
})

test.each([
  ['numbers of rows', 5, 'a'],
  ['bytes', 1000, `repeat('x', 300000)`],
])('rows with equal keys across a page limit of %s are all read', async (_bound, readBatchSize, text) => {
  await admin.query(`create table t (n int, id int, updated_at timestamptz, a text)`)
  // Groups of four, the first of which have no change value.
  await admin.query(
    `insert into t select i, i / 4, case when i >= 8 then '2026-01-01'::timestamptz + i / 8 * interval '1 s' end, ${text === 'a' ? `'a'` : text}
     from generate_series(0, 39) i`,
  )
  const rowsOf = (batches: readonly Batch[]) =>
    batches.flatMap(({ messages }) => messages.map(({ raw }) => (JSON.parse(Buffer.from(raw!).toString()) as { n: number }).n))
  const all = Array.from({ length: 40 }, (_, index) => index)
  const batches = await readBatches({ readBatchSize })
  expect(batches.length).toBeGreaterThan(3)
  expect(rowsOf(batches).toSorted((a, b) => a - b)).toEqual(all)
  const source = postgresqlSource.open(config({}), sourceContext())
  await source.connect()
  onTestFinished(() => source.close())
  const messages = batches.flatMap((batch) => batch.messages)
  for (const [index, { position }] of messages.entries()) {
    if (index > 0) expect(source.compare(messages[index - 1]!.position, position)).toBeLessThan(0)
    if (![0, 2, 9, 17, 38].includes(index)) continue
    await source.commit(new Map([['rows', position]]))
    const rest = rowsOf(await readBatches({ readBatchSize }, source.state()))
    expect([...new Set([...rowsOf(batches).slice(0, index + 1), ...rest])].toSorted((a, b) => a - b)).toEqual(all)
  }
})

test('more rows with equal keys than a page can contain are class config', async () => {
  await admin.query(`create table t (id int, updated_at timestamptz, a text)`)
  await admin.query(`insert into t select 1, '2026-01-01', repeat('x', 1000000) from generate_series(1, 20)`)
  await expect(readBatches()).rejects.toMatchObject({
    class: 'config',
    message: 'too many rows have the same updated_at and id: set orderByColumn to a column that differs between rows',
  })
})
