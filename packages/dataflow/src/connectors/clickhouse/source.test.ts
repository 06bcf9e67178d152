// The ClickHouse source on a real server: pages, equal keys, exact values, restarts.
import { type ClickhouseDatabase, clickhouseDatabase } from '@brokkr/testing/servers/clickhouse.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import type { Message, Source, SourceContext } from '../connector.ts'
import { sourceConfig } from '../test-parts/configs.ts'
import { readCount, readUntil, sourceContext } from '../test-parts/contexts.ts'
import { clickhouseSource } from './index.ts'

let database: ClickhouseDatabase
beforeEach(async () => {
  database = await clickhouseDatabase()
})

async function open(config: object, context: Partial<SourceContext> = {}): Promise<Source> {
  const given = { connectionString: database.url, table: 't', pollInterval: 1, ...config }
  const source = clickhouseSource.open(sourceConfig('clickhouse', given), sourceContext({ isBounded: true, ...context }))
  onTestFinished(() => source.close())
  await source.connect()
  return source
}
const texts = (messages: readonly Message[]) => messages.map(({ raw }) => Buffer.from(raw!).toString())
const ids = (messages: readonly Message[]) => texts(messages).map((text) => (JSON.parse(text) as { id: number }).id)
const everything = () => false

test('rows are read once and in order, with equal change values and across restarts', async () => {
  await database.run('create table t (id UInt32, created_at DateTime) engine = MergeTree order by id')
  // A second holds many rows, so the key decides between them.
  await database.run(`insert into t select number, toDateTime('2026-01-02 03:04:05') + intDiv(number, 700) from numbers(3000)`)
  const source = await open({ readBatchSize: 1000 })
  const messages = await readUntil(source, everything)
  expect(ids(messages)).toEqual(Array.from({ length: 3000 }, (_, id) => id))
  await source.commit(new Map([['rows', messages[1499]!.position]]))
  const again = await open({ readBatchSize: 100 }, { stored: source.state() })
  expect(ids(await readUntil(again, everything))).toEqual(Array.from({ length: 1500 }, (_, at) => 1500 + at))
  expect((await source.lag()).seconds).toBeGreaterThan(0)
})

test('rows that share both keys are all read, and a restart between them repeats rather than loses', async () => {
  await database.run('create table t (id UInt32, v UInt32, created_at DateTime) engine = MergeTree order by id')
  await database.run(`insert into t select 1, number, '2026-01-02 03:04:05' from numbers(150)`)
  const source = await open({ readBatchSize: 10 })
  const messages = await readUntil(source, everything)
  expect(messages.length).toBe(150)
  await source.commit(new Map([['rows', messages[70]!.position]]))
  const again = await open({ readBatchSize: 10 }, { stored: source.state() })
  const repeated = await readUntil(again, everything)
  expect(repeated.length).toBe(150)
  // A sink that stores positions skips the rows that it has, and no other.
  const pairs = (of: readonly Message[]) => of.map((message, at) => [texts(of)[at], message.position])
  expect(pairs(repeated)).toEqual(pairs(messages))
})

test('values are exact, times are RFC3339 in UTC, and the batch column stays hidden', async () => {
  await database.run(
    `create table t (id UUID, n UInt64, d Decimal(38, 10), ts DateTime64(9), s Nullable(String), a Array(Int64), created_at DateTime64(6), _brokkr_batch LowCardinality(String)) engine = MergeTree order by id`,
  )
  await database.run(
    `insert into t values ('61f0c404-5cb3-11e7-907b-a6006ad3dba0', 18446744073709551615, 12345678901234567890.0123456789, '2026-01-02 03:04:05.123456789', null, [9007199254740993], '2026-01-02 03:04:05.000006', 'b')`,
  )
  const [message] = await readUntil(await open({}), everything)
  expect(texts([message!])).toEqual([
    '{"id":"61f0c404-5cb3-11e7-907b-a6006ad3dba0","n":18446744073709551615,"d":12345678901234567890.0123456789,"ts":"2026-01-02T03:04:05.123456789Z","s":null,"a":[9007199254740993],"created_at":"2026-01-02T03:04:05.000006Z"}',
  ])
  expect(message!.metadata).toEqual({ table: 't', id: '61f0c404-5cb3-11e7-907b-a6006ad3dba0', operation: 'insert' })
  expect(message!.position).toEqual({ c: '2026-01-02T03:04:05.000006', o: '61f0c404-5cb3-11e7-907b-a6006ad3dba0', n: 0 })
})

test('positions follow the order of the server for every type of key', async () => {
  await database.run(
    `create table t (id UInt32, u UUID, e Enum8('z' = 1, 'a' = 2), ip IPv4, f FixedString(4), created_at DateTime default '2026-01-02 03:04:05') engine = MergeTree order by id`,
  )
  await database.run(
    `insert into t (id, u, e, ip, f) select number, generateUUIDv4(), if(number % 2 = 0, 'z', 'a'), toIPv4(concat('10.0.0.', toString(number))), toString(number) from numbers(100)`,
  )
  for (const orderByColumn of ['u', 'e', 'ip', 'f']) {
    const source = await open({ orderByColumn, readBatchSize: 7 })
    const messages = await readUntil(source, everything)
    expect(new Set(ids(messages)).size).toBe(100)
    // The pipeline leaves out a message that is not behind the last one.
    const steps = messages.slice(1).map((message, at) => source.compare(messages[at]!.position, message.position))
    expect([orderByColumn, steps.filter((step) => step >= 0)]).toEqual([orderByColumn, []])
  }
})

test('a change column in a zone is read without a gap, also in the hour that a clock repeats', async () => {
  await database.run(`create table t (id UInt32, created_at DateTime64(3, 'Europe/Berlin')) engine = MergeTree order by id`)
  await database.run(`insert into t select number, toDateTime64('2026-10-24 23:00:00', 3, 'UTC') + number * 60 from numbers(240)`)
  const source = await open({ readBatchSize: 50 })
  const messages = await readUntil(source, everything)
  expect(ids(messages)).toEqual(Array.from({ length: 240 }, (_, id) => id))
  expect(messages[0]!.position).toMatchObject({ c: '2026-10-24T23:00:00.000' })
  expect(messages.slice(1).every((message, at) => source.compare(messages[at]!.position, message.position) < 0)).toBe(true)
})

test('columns may have any name, and numbers that JSON does not have are texts', async () => {
  await database.run(
    'create table t (id UInt32, `row` String, change Float64, ord Int8, operation String, created_at DateTime64(6), updated_at DateTime64(6)) engine = MergeTree order by id',
  )
  await database.run(
    `insert into t values (1, 'r', nan, 2, 'o', '2026-01-02 00:00:00', '2026-01-02 00:00:00'), (2, 's', -inf, 3, 'p', '2026-01-02 00:00:00', '2026-01-03 00:00:00')`,
  )
  const messages = await readUntil(await open({}), everything)
  expect(texts(messages).map((text) => JSON.parse(text) as object)).toMatchObject([
    { id: 1, row: 'r', change: 'nan', ord: 2, operation: 'o' },
    { id: 2, row: 's', change: '-inf', ord: 3, operation: 'p' },
  ])
  expect(messages.map(({ metadata }) => metadata['operation'])).toEqual(['insert', 'update'])
})

test('a row without an order value is reported and not passed over', async () => {
  await database.run('create table t (id Nullable(UInt32), created_at Nullable(DateTime)) engine = MergeTree order by tuple()')
  for (const time of [`'2026-01-02 00:00:00'`, 'null']) {
    await database.run(`truncate table t`)
    await database.run(`insert into t values (1, ${time}), (2, ${time})`)
    const source = await open({})
    const messages = await readUntil(source, everything)
    expect(ids(messages)).toEqual([1, 2])
    await source.commit(new Map([['rows', messages[1]!.position]]))
    await database.run(`insert into t values (null, ${time})`)
    const again = await open({}, { stored: source.state() })
    await expect(readUntil(again, everything)).rejects.toMatchObject({
      class: 'config',
      message: expect.stringContaining('no value in id'),
    })
  }
})

test('a query that is given up does not go on on the server', async () => {
  const stop = new AbortController()
  const source = await open(
    {
      table: undefined,
      query: `select 1 as id, now() as created_at from numbers(1000) where sleepEachRow(1) = 0 settings max_block_size = 1`,
    },
    { signal: stop.signal },
  )
  const queries = async () =>
    (await database.rows(`select 1 from system.processes where query like '%sleepEachRow(1)%' and http_user_agent like 'brokkr/%'`)).length
  const reading = readUntil(source, everything)
  await waitFor('the query to run', async () => (await queries()) > 0)
  stop.abort()
  await reading
  await waitFor('the query to end', async () => (await queries()) === 0)
})

test('a query, rows without a change value, new rows while polling, and a rewind to a time', async () => {
  await database.run('create table t (id UInt32, at Nullable(DateTime64(3))) engine = MergeTree order by id')
  await database.run(`insert into t values (1, '2026-01-02 00:00:00'), (2, null), (3, '2026-01-01 00:00:00'), (4, null)`)
  const config = { table: undefined, query: 'select id, at from t where id < 100;', changeTrackingColumn: 'at' }
  const source = await open(config, { isBounded: false })
  expect(ids(await readCount(source, 4))).toEqual([2, 4, 3, 1])
  const reading = readCount(source, 1)
  await database.run(`insert into t values (5, '2026-01-03 00:00:00')`)
  expect(ids(await reading)).toEqual([5])
  await source.rewind({ changeTime: '2026-01-02T00:00:00Z' })
  expect(ids(await readCount(source, 2))).toEqual([1, 5])
})

test('a missing table, a missing column and a failing server are reported by class', async () => {
  const failure = (work: Promise<unknown>) =>
    work.then(
      () => undefined,
      (error: unknown) => error,
    )
  expect(await failure(open({}))).toMatchObject({ class: 'config' })
  await database.run('create table t (id UInt32) engine = MergeTree order by id')
  expect(await failure(open({}))).toMatchObject({ class: 'config', message: expect.stringContaining('created_at does not exist') })
  expect(await failure(open({ connectionString: 'http://127.0.0.1:1/x' }))).toMatchObject({ class: 'transient' })
  await waitFor(
    'the preview',
    async () =>
      (
        await clickhouseSource.sample(
          sourceConfig('clickhouse', { connectionString: database.url, table: 't', changeTrackingColumn: 'id' }),
          sourceContext(),
          5,
        )
      ).length === 0,
  )
})
