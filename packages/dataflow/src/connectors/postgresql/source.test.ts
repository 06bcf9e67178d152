// long: rows that commit late are waited for
import { randomUUID } from 'node:crypto'
import type { JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import { emptyDatabase, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import fc from 'fast-check'
import type pg from 'pg'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { Message, Source, SourceContext } from '../connector.ts'
import { compareKeys, timeText } from '../polling/keys.ts'
import { sourceConfig } from '../test-parts/configs.ts'
import { endlessBudget, readUntil, sourceContext } from '../test-parts/contexts.ts'
import { postgresqlSource } from './index.ts'

let database: TestDatabase
let admin: pg.Client
beforeEach(async () => {
  database = await emptyDatabase()
  admin = await database.connect()
})
afterEach(() => admin.end())

async function open(config: object, context: Partial<SourceContext> = {}): Promise<Source> {
  const full = { connectionString: database.url, ...('query' in config ? {} : { table: 't' }), ...config }
  const source = postgresqlSource.open(sourceConfig('postgresql', full), sourceContext(context))
  onTestFinished(() => source.close())
  await source.connect()
  return source
}

const readAll = async (config: object, context: Partial<SourceContext> = {}) =>
  readUntil(await open(config, { isBounded: true, ...context }), () => false)
const payloads = (messages: readonly Message[]) =>
  messages.map(({ raw }) => JSON.parse(Buffer.from(raw!).toString()) as Record<string, unknown>)
const last = (messages: readonly Message[]) => new Map([['rows', messages.at(-1)!.position]])

/** Reads in the background, as a flow does. */
async function follow(config: object, context: Partial<SourceContext> = {}) {
  const stopping = new AbortController()
  const source = await open({ pollInterval: 0, ...config }, { signal: stopping.signal, ...context })
  const read: Message[] = []
  const done = (async () => {
    for await (const { messages } of source.read(endlessBudget)) read.push(...messages)
  })()
  const stop = async () => {
    stopping.abort()
    await done
  }
  onTestFinished(stop)
  return { source, read, stop }
}

test('[D90] rows that arrive while polling are read once, in order, across a restart', async () => {
  await admin.query('create table t (id uuid primary key, created_at timestamptz not null, updated_at timestamptz)')
  const base = '2026-01-02T03:04:05'
  const insert = (count: number, micros: number) =>
    admin.query({
      text: `insert into t select * from unnest($1::uuid[], $2::timestamptz[])`,
      values: [
        Array.from({ length: count }, () => randomUUID()),
        Array.from({ length: count }, (_, index) => `${base}.${String(micros + Math.floor(index / 3)).padStart(6, '0')}Z`),
      ],
    })
  await insert(300, 1)
  const first = await follow({ readBatchSize: 7 })
  await waitFor('the first rows', () => first.read.length === 300)
  await insert(300, 101)
  await waitFor('the second rows', () => first.read.length === 600)
  await first.source.commit(last(first.read.slice(0, 450)))
  const stored = first.source.state()
  await first.stop()
  const expected = (
    await admin.query('select id, to_char(created_at at time zone $1, $2) as at from t order by created_at, id', [
      'UTC',
      'YYYY-MM-DD"T"HH24:MI:SS.US"+00:00"',
    ])
  ).rows as { id: string; at: string }[]
  const seen = payloads(first.read).map(({ id, created_at }) => ({ id, at: created_at }))
  expect(seen.map(({ id }) => id)).toEqual(expected.map(({ id }) => id))
  expect(String(seen[5]?.at)).toMatch(/\.00000[12]/)
  expect(stored).toMatchObject({ lastReadChangeTime: expect.stringMatching(/^2026-01-02T03:04:05\.0001\d+Z$/) as string })
  const second = await readAll({ readBatchSize: 7 }, { stored: stored as JsonObject })
  expect(payloads(second).map(({ id }) => id)).toEqual(expected.slice(450).map(({ id }) => id))
})

test('[D91] a late row within the overlap is read once', async () => {
  await admin.query('create table t (id int primary key, updated_at timestamptz not null)')
  const late = await database.connect()
  onTestFinished(() => late.end())
  await late.query('begin')
  await late.query(`insert into t values (1, now())`)
  await admin.query(`insert into t values (2, clock_timestamp() + interval '1 second'), (3, clock_timestamp() + interval '2 seconds')`)
  const flow = await follow({ overlapSeconds: 5 })
  await waitFor('the early rows', () => flow.read.length === 2)
  await flow.source.commit(last(flow.read))
  await late.query('commit')
  await waitFor('the late row', () => flow.read.length === 3)
  await admin.query(`insert into t values (4, clock_timestamp() + interval '3 seconds')`)
  await waitFor('a later row', () => flow.read.length === 4)
  // Several polls later each is still there once.
  await admin.query(`insert into t values (5, clock_timestamp() + interval '4 seconds')`)
  await waitFor('one more', () => flow.read.length >= 5)
  expect(payloads(flow.read).map(({ id }) => id)).toEqual([2, 3, 1, 4, 5])
  // Positions only move forward, the late row's too: a sink that keeps them must not take it for one it has.
  const order = flow.read.map(({ position }) => position)
  for (let index = 1; index < order.length; index += 1) expect(flow.source.compare(order[index - 1]!, order[index]!)).toBeLessThan(0)
})

describe('reading', () => {
  test('rows without a change value are read first, only in the first run', async () => {
    await admin.query(`create table t (id int primary key, updated_at timestamptz)`)
    await admin.query(`insert into t values (3, null), (1, null), (2, '2026-01-01'), (5, '2026-01-01'), (4, '2025-01-01')`)
    const all = await readAll({ readBatchSize: 2 })
    expect(payloads(all).map(({ id }) => id)).toEqual([1, 3, 4, 2, 5])
    const source = await open({}, { isBounded: true })
    await source.commit(last(all))
    await admin.query(`insert into t values (6, null), (7, '2026-01-02')`)
    const again = await readAll({}, { stored: source.state() as JsonObject })
    expect(payloads(again).map(({ id }) => id)).toEqual([7])
    await source.commit(last(all.slice(0, 1)))
    expect(payloads(await readAll({ readBatchSize: 1 }, { stored: source.state() as JsonObject })).map(({ id }) => id)).toEqual([
      3, 6, 4, 2, 5, 7,
    ])
  })

  test('a null updated_at counts as created_at and marks an insert', async () => {
    await admin.query(`create table t (id int primary key, created_at timestamptz default '2026-01-01', updated_at timestamptz)`)
    await admin.query(
      `insert into t (id) values (1); insert into t values (2, '2026-01-01', '2026-01-05'), (3, '2026-01-01', '2026-01-01')`,
    )
    const all = await readAll({})
    expect(all.map(({ metadata }) => metadata)).toEqual([
      { table: 't', id: 1, operation: 'insert' },
      { table: 't', id: 3, operation: 'insert' },
      { table: 't', id: 2, operation: 'update' },
    ])
  })

  test('a query with its own change column and text key is read in order', async () => {
    await admin.query(`create table t (k text collate "und-x-icu" primary key, version bigint, n numeric)`)
    await admin.query(`insert into t values ('b', 1, 1), ('B', 1, 2), ('ä', 1, 3), ('a', 2, 12345678901234567890.123456789), ('z', 10, 4)`)
    const config = {
      query: `select k, version, n, upper(k) as upper from t -- all of it`,
      changeTrackingColumn: 'version',
      orderByColumn: 'k',
      readBatchSize: 1,
    }
    const all = await readAll(config)
    expect(payloads(all).map(({ k }) => k)).toEqual(['B', 'b', 'ä', 'a', 'z'])
    expect(String(all[3]?.raw)).toBe('{"k":"a","version":2,"n":12345678901234567890.123456789,"upper":"A"}')
    expect(all[0]?.metadata).toEqual({ id: 'B', operation: 'insert' })
  })

  test('every page waits for the budget', async () => {
    await admin.query(
      `create table t (id int primary key, updated_at timestamptz); insert into t select i, now() from generate_series(1, 20) i`,
    )
    let asked = 0
    const source = await open({ readBatchSize: 5 }, { isBounded: true })
    const all = await readUntil(source, () => false, { isSpent: false, room: async () => void (asked += 1) })
    expect(all).toHaveLength(20)
    expect(asked).toBeGreaterThanOrEqual(5)
  })
})

test('autoCreateTable creates the table; missing key columns are class config', async () => {
  expect(await readAll({ autoCreateTable: true })).toEqual([])
  await admin.query('insert into t default values')
  expect(payloads(await readAll({}))).toMatchObject([{ id: 1 }])
  await expect(open({ table: 'none' })).rejects.toMatchObject({ class: 'config' })
  await admin.query('create table plain (x int)')
  await expect(open({ table: 'plain' })).rejects.toMatchObject({
    class: 'config',
    message: expect.stringContaining('column updated_at does not exist') as string,
  })
})

test('the lag is the age of the oldest unread row', async () => {
  await admin.query(
    `create table t (id int primary key, updated_at timestamptz); insert into t values (1, now() - interval '1 hour'), (2, now() - interval '10 minutes')`,
  )
  const source = await open({}, { isBounded: true })
  const all = await readUntil(source, () => false)
  await source.commit(last(all.slice(0, 1)))
  const { seconds } = await source.lag()
  expect(seconds).toBeGreaterThan(590)
  expect(seconds).toBeLessThan(900)
  await source.commit(last(all))
  expect(await source.lag()).toEqual({ seconds: 0 })
})

test('a rewind accepts only the start or a time', async () => {
  await admin.query(
    `create table t (id int primary key, updated_at timestamptz); insert into t values (1, '2026-01-01'), (2, '2026-01-02'), (3, '2026-01-03')`,
  )
  const source = await open({}, { isBounded: true })
  await readUntil(source, () => false)
  await source.rewind({ changeTime: '2026-01-02T00:00:00Z' })
  expect(payloads(await readUntil(source, () => false)).map(({ id }) => id)).toEqual([2, 3])
  await source.rewind({ changeTime: '2026-01-02T00:00:00Z', orderValue: '2' })
  expect(payloads(await readUntil(source, () => false)).map(({ id }) => id)).toEqual([3])
  await source.rewind('start')
  expect(await readUntil(source, () => false)).toHaveLength(3)
  await expect(source.rewind('latest')).rejects.toMatchObject({ class: 'config' })
})

test('a broken connection is transient, and reading resumes after the last emitted row', async () => {
  await admin.query(
    `create table t (id int primary key, updated_at timestamptz); insert into t select i, now() from generate_series(1, 4) i`,
  )
  const source = await open({ readBatchSize: 2 }, { isBounded: true })
  const read: Message[] = []
  const reading = async () => {
    for await (const { messages } of source.read(endlessBudget)) {
      read.push(...messages)
      if (read.length === 2)
        await admin.query(
          `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'brokkr/test/flow' and datname = current_database()`,
        )
    }
  }
  await expect(reading()).rejects.toMatchObject({ class: 'transient' })
  await source.connect()
  await reading()
  expect(payloads(read).map(({ id }) => id)).toEqual([1, 2, 3, 4])
})

test('the preview reads the first rows', async () => {
  await admin.query(
    `create table t (id int primary key, updated_at timestamptz); insert into t select i, now() from generate_series(1, 9) i`,
  )
  const config = sourceConfig('postgresql', { connectionString: database.url, table: 't' })
  expect(payloads(await postgresqlSource.sample(config, sourceContext(), 3)).map(({ id }) => id)).toEqual([1, 2, 3])
})

describe('keys compare as the server orders them', () => {
  test.each([
    ['time', '2026-01-02T03:04:05.1Z', '2026-01-02T03:04:05.15Z'],
    ['time', '2026-01-02T03:04:05Z', '2026-01-02T03:04:05.000001Z'],
    ['time', '2026-01-02 03:04:05+00', '2026-01-02T03:04:06Z'],
    ['number', '9', '10'],
    ['number', '-1.5', '0.25'],
    ['number', '9223372036854775806', '9223372036854775807'],
    ['text', 'B', 'a'],
    ['text', 'z', 'ä'],
  ] as const)('%s %s < %s', (kind, left, right) => {
    expect(compareKeys(kind, left, right)).toBeLessThan(0)
    expect(compareKeys(kind, right, left)).toBeGreaterThan(0)
    expect(compareKeys(kind, left, left)).toBe(0)
  })

  test('for numbers and texts of every kind it is an order', () => {
    fc.assert(
      fc.property(
        fc.constantFrom('number' as const, 'text' as const),
        fc.array(fc.oneof(fc.integer().map(String), fc.bigInt().map(String)), { minLength: 3, maxLength: 3 }),
        (kind, values) => {
          const [a, b, c] = values.toSorted((x, y) => compareKeys(kind, x, y)) as [string, string, string]
          expect(compareKeys(kind, a, c)).toBeLessThanOrEqual(0)
          expect(Math.sign(compareKeys(kind, a, b))).toBe(-Math.sign(compareKeys(kind, b, a)) || 0)
        },
      ),
    )
  })

  test('times are stored as RFC3339', () => {
    expect(timeText('time', '2026-01-02 03:04:05.123456+00')).toBe('2026-01-02T03:04:05.123456Z')
    expect(timeText('number', '5')).toBe('5')
  })
})
