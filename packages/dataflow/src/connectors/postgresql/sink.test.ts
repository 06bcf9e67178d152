import type { Metadata } from '@brokkr/contract/dataflow/language/json.ts'
import { postgresWithFailingQuery } from '@brokkr/testing/faults/postgres-failing-query.ts'
import { proxiedPostgres } from '@brokkr/testing/faults/postgres-proxy.ts'
import { emptyDatabase, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import pg from 'pg'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { newMessage } from '../../message/message.ts'
import type { ConnectorError } from '../connector.ts'
import { type Rec, type Sink, type SinkContext } from '../connector.ts'
import { sinkConfig } from '../test-parts/configs.ts'
import { nothingSeen, sinkContext } from '../test-parts/contexts.ts'
import { postgresqlSink } from './index.ts'

const longMs = 180_000
let database: TestDatabase
let admin: pg.Client
beforeEach(async () => {
  database = await emptyDatabase()
  admin = await database.connect()
})
afterEach(() => admin.end())

async function open(config: object, context: Partial<SinkContext> = {}): Promise<Sink> {
  const sink = postgresqlSink.open(
    sinkConfig('postgresql', { connectionString: database.url, table: 't', ...config }),
    sinkContext(context),
  )
  onTestFinished(() => sink.close())
  await sink.connect()
  return sink
}

let position = 0
const rec = (json: object | string, metadata: Metadata = {}): Rec =>
  newMessage({
    raw: Buffer.from(typeof json === 'string' ? json : JSON.stringify(json)),
    metadata,
    position: (position += 1),
    partition: 0,
  })
const gone = (id: unknown): Rec => rec({ id }, { operation: 'delete' })
const at = (value: number) => new Map([[0, value]])
const rows = async (text = 'select * from t order by id'): Promise<Record<string, unknown>[]> => (await admin.query(text)).rows

describe('many rows, exact digits, and one key three times in a batch', () => {
  test('[D92] a hundred thousand rows of twenty columns are inserted and upserted', { timeout: longMs }, async () => {
    const names = Array.from({ length: 19 }, (_, index) => `c${index}`)
    await admin.query(`create table t (id int primary key, ${names.map((name) => `${name} text`).join(', ')})`)
    const total = size('D92.rows')
    const batchOf = (from: number, count: number, text: string) =>
      Array.from({ length: count }, (_, index) =>
        rec({ id: from + index, ...Object.fromEntries(names.map((name) => [name, `${text}\t${name}\\`])) }),
      )
    const inserts = await open({})
    for (let from = 0; from < total; from += 10_000) await inserts.write(batchOf(from, 10_000, 'a'), at(from))
    expect(await rows(`select count(*)::int as n, count(distinct c18)::int as d, min(c18) as one from t`)).toEqual([
      { n: total, d: 1, one: 'a\tc18\\' },
    ])
    const upserts = await open({ upsertMode: true })
    await upserts.write(batchOf(0, 6_000, 'b'), at(total))
    await upserts.write(batchOf(6_000, 1_000, 'c'), at(total + 1))
    expect(await rows(`select left(c0, 1) as c, count(*)::int as n from t group by 1 order by 1`)).toEqual([
      { c: 'a', n: total - 7_000 },
      { c: 'b', n: 6_000 },
      { c: 'c', n: 1_000 },
    ])
  })

  test('[D92] a numeric of thirty digits is exact on every path', async () => {
    await admin.query('create table t (id int primary key, n numeric, big bigint, f float8)')
    const digits = '123456789012345678901234.567891'
    const line = (id: number) => rec(`{"id":${id},"n":${digits},"big":9223372036854775807,"f":0.1}`)
    await (await open({})).write([line(1)], at(1))
    await (await open({})).write(
      Array.from({ length: 250 }, (_, index) => line(10 + index)),
      at(2),
    )
    await (await open({ upsertMode: true })).write([line(1)], at(3))
    expect(await rows('select distinct n::text, big::text, f from t')).toEqual([{ n: digits, big: '9223372036854775807', f: 0.1 }])
  })

  test('[D92] the last position wins field by field, without error 21000', async () => {
    await admin.query('create table t (id int primary key, a text, b text)')
    const sink = await open({ upsertMode: true })
    await sink.write(
      [rec({ id: 1, a: 'first', b: 'kept' }), rec({ id: 2, a: 'x' }), rec({ id: 1, a: 'second' }), rec({ id: 1, a: 'third' })],
      at(1),
    )
    expect(await rows()).toEqual([
      { id: 1, a: 'third', b: 'kept' },
      { id: 2, a: 'x', b: null },
    ])
  })
})

describe('of mixed upserts and deletes of one key the last operation wins', () => {
  const mixed = () => [rec({ id: 1, a: 'x' }), gone(1), rec({ id: 2, a: 'y' }), gone(2), rec({ id: 2, a: 'again' }), gone(3)]

  test.each([
    ['hard', [{ id: 2, a: 'again', d: null }]],
    [
      'ignore',
      [
        { id: 1, a: 'x', d: null },
        { id: 2, a: 'again', d: null },
        { id: 3, a: 'old', d: null },
      ],
    ],
  ] as const)('[D93] deleteMode %s: the last operation of a key wins', async (deleteMode, left) => {
    await admin.query(`create table t (id int primary key, a text, d timestamptz); insert into t values (3, 'old')`)
    await (await open({ upsertMode: true, deleteMode })).write(mixed(), at(1))
    expect(await rows()).toEqual(left)
  })

  test('[D93] deleteMode soft sets the column, and a later upsert clears it', async () => {
    await admin.query(`create table t (id int primary key, a text, d timestamptz); insert into t values (3, 'old'), (1, 'old')`)
    const sink = await open({ upsertMode: true, softDeleteColumn: 'd' })
    await sink.write(mixed(), at(1))
    expect(await rows('select id, a, d is not null as gone from t order by id')).toEqual([
      { id: 1, a: 'old', gone: true },
      { id: 2, a: 'again', gone: false },
      { id: 3, a: 'old', gone: true },
    ])
    await sink.write([rec({ id: 3, a: 'back' })], at(2))
    expect(await rows('select a, d from t where id = 3')).toEqual([{ a: 'back', d: null }])
  })

  test('[D93] a delete uses metadata.id as key; without a key it is class record', async () => {
    await admin.query(`create table t (id int primary key); insert into t values (7)`)
    const sink = await open({ upsertMode: true })
    await sink.write([rec('{}', { operation: 'delete', id: 7 })], at(1))
    expect(await rows()).toEqual([])
    await expect(sink.write([rec({ id: 1 }), rec('{}', { operation: 'delete' })], at(2))).rejects.toMatchObject({
      class: 'record',
      recordIndex: 1,
    })
  })
})

describe('fields without a column, nested objects, raw mode', () => {
  test('[D94] an unknown field is rejected, dropped or added as a column', async () => {
    await admin.query('create table t (id int primary key, a text)')
    const line = () => rec({ id: 1, a: 'x', extra: { deep: [1] }, n: 5 })
    await expect((await open({})).write([rec({ id: 0 }), line()], at(1))).rejects.toMatchObject({
      class: 'record',
      recordIndex: 1,
      message: 'no column for the field extra',
    })
    expect(await rows()).toEqual([])
    await (await open({ unknownFields: 'ignore' })).write([line()], at(2))
    expect(await rows()).toEqual([{ id: 1, a: 'x' }])
    await (await open({ unknownFields: 'addColumn', upsertMode: true })).write([line()], at(3))
    expect(await rows('select id, a, extra, n::text from t')).toEqual([{ id: 1, a: 'x', extra: { deep: [1] }, n: '5' }])
  })

  test('[D94] objects, arrays and texts are converted to the column type', async () => {
    await admin.query('create table t (id int primary key, j jsonb, s jsonb, l text[], m int[][])')
    await (await open({})).write(
      [rec('{"id":1,"j":{"a":[1,{"b":12345678901234567890}]},"s":"text","l":["a,b","c\\"d",null],"m":[[1,2],[3,4]]}')],
      at(1),
    )
    expect(await rows('select j::text, s::text, l, m from t')).toEqual([
      {
        j: '{"a": [1, {"b": 12345678901234567890}]}',
        s: '"text"',
        l: ['a,b', 'c"d', null],
        m: [
          [1, 2],
          [3, 4],
        ],
      },
    ])
  })

  test('[D94] raw mode stores a payload whole, unwraps its envelope and creates its table', async () => {
    const sink = await open({ rawMode: true, autoCreateTable: true })
    await sink.write(
      [rec({ id: 1, value: 5 }, { topic: 'x' }), rec({ value: { a: 1 }, _metadata: { m: 2 } }), rec('not json', { topic: 'y' })],
      at(1),
    )
    expect(await rows('select data, _metadata from t order by id')).toEqual([
      { data: { id: 1, value: 5 }, _metadata: { topic: 'x' } },
      { data: { a: 1 }, _metadata: { m: 2 } },
      { data: 'not json', _metadata: { topic: 'y' } },
    ])
    const flat = await open({
      table: 'f',
      rawMode: true,
      autoCreateTable: true,
      flattenMetadataColumns: true,
      flattenMetadataColumnsPrefix: 'm_',
    })
    await flat.write([rec({ a: 1 }, { topic: 'x', partition: 3 })], at(2))
    expect(await rows('select data, m_topic, m_partition from f')).toEqual([{ data: { a: 1 }, m_topic: 'x', m_partition: '3' }])
    const keyed = await open({ table: 'k', rawMode: true, autoCreateTable: true, upsertMode: true })
    await keyed.write([rec({ id: 'a', v: 1 }), rec({ id: 'a', v: 2 })], at(3))
    expect(await rows('select id, data from k')).toEqual([{ id: 'a', data: { id: 'a', v: 2 } }])
  })
})

describe('plain inserts', () => {
  test.each([[1], [250]])('an existing row is ignored and counted, %i in a batch', async (more) => {
    await admin.query(`create table t (id int primary key, a text); insert into t values (1, 'there')`)
    const seen = nothingSeen()
    const sink = await open({}, sinkContext({}, seen))
    await sink.write([rec({ id: 1, a: 'new' }), ...Array.from({ length: more }, (_, index) => rec({ id: 10 + index, a: 'x' }))], at(1))
    expect(await rows('select count(*)::int as n, min(a) filter (where id = 1) as a from t')).toEqual([{ n: more + 1, a: 'there' }])
    expect(seen.conflicts).toBe(1)
    const strict = await open({ onConflict: 'error' })
    await expect(strict.write([rec({ id: 1, a: 'new' })], at(2))).rejects.toMatchObject({ class: 'record', type: 'constraint_violation' })
  })

  test('a missing field uses the default on insert and is unchanged on upsert', async () => {
    await admin.query(`create table t (id int primary key, a text default 'd', b text)`)
    await (await open({})).write([rec({ id: 1 }), rec({ id: 2, a: null }), rec({ id: 3, b: 'b' })], at(1))
    expect(await rows()).toEqual([
      { id: 1, a: 'd', b: null },
      { id: 2, a: null, b: null },
      { id: 3, a: 'd', b: 'b' },
    ])
    await (await open({ upsertMode: true })).write([rec({ id: 3, a: 'x' }), rec({ id: 1, b: 'y' }), rec({ id: 2 })], at(2))
    expect(await rows()).toEqual([
      { id: 1, a: 'd', b: 'y' },
      { id: 2, a: null, b: null },
      { id: 3, a: 'x', b: 'b' },
    ])
  })

  test('a too long text is rejected; identity columns are written, generated ones are not', async () => {
    await admin.query(
      'create table t (id int generated always as identity primary key, s varchar(3), b bit(3), g int generated always as (id * 2) stored)',
    )
    const sink = await open({})
    for (const bad of [{ s: 'long' }, { b: '10101' }])
      await expect(sink.write([rec({ id: 1, ...bad })], at(1))).rejects.toMatchObject({ class: 'record', type: 'invalid_data' })
    await sink.write([rec({ id: 5, s: 'abc', b: '101', g: 1 })], at(2))
    expect(await rows()).toEqual([{ id: 5, s: 'abc', b: '101', g: 10 }])
  })
})

test('ifNewer stores the highest version, and the later of equal ones', async () => {
  await admin.query('create table t (id int primary key, v timestamptz, a text)')
  const sink = await open({ upsertMode: true, upsertStrategy: 'ifNewer', upsertVersionColumn: 'v' })
  const line = (v: string, a: string) => rec({ id: 1, v, a })
  await sink.write(
    [line('2026-01-02T00:00:00Z', 'newer'), line('2026-01-01T23:00:00+00:30', 'older'), line('2026-01-02T01:00:00+01:00', 'equal')],
    at(1),
  )
  expect(await rows('select a from t')).toEqual([{ a: 'equal' }])
  await sink.write([line('2025-01-01T00:00:00Z', 'old')], at(2))
  expect(await rows('select a from t')).toEqual([{ a: 'equal' }])
})

test('a table is created from the first batch with types, primary key and extra columns', async () => {
  const sink = await open({ autoCreateTable: true, upsertMode: true, softDeleteColumn: 'deleted' })
  await sink.write(
    [rec({ id: 1, flag: true, n: 1.5, o: { a: 1 }, t: 'x', none: null, mixed: 1 }), rec({ id: 2, mixed: 'text', more: [1] })],
    at(1),
  )
  const columns = await rows(
    `select column_name as name, data_type as type from information_schema.columns where table_name = 't' order by ordinal_position`,
  )
  expect(Object.fromEntries(columns.map(({ name, type }) => [name, type]))).toEqual({
    id: 'numeric',
    flag: 'boolean',
    n: 'numeric',
    o: 'jsonb',
    t: 'text',
    none: 'text',
    mixed: 'text',
    more: 'jsonb',
    created_at: 'timestamp with time zone',
    updated_at: 'timestamp with time zone',
    deleted: 'timestamp with time zone',
  })
  await sink.write([rec({ id: 2, t: 'changed' })], at(2))
  expect(await rows('select id::int, t, mixed from t order by id')).toEqual([
    { id: 1, t: 'x', mixed: '1' },
    { id: 2, t: 'changed', mixed: 'text' },
  ])
})

test('dead letters are stored by id, and a repeat is stored once', async () => {
  const sink = await open({ table: 'letters', autoCreateTable: true, upsertMode: true, rawMode: true }, { role: 'errors' })
  const letter = { ...rec({ error: { type: 'x' }, original_message: { a: 1 } }), key: Buffer.from('abc') }
  await sink.write([letter], at(1))
  await sink.write([letter], at(1))
  expect(await rows('select id, error, original_message, replayed_at from letters')).toEqual([
    { id: 'abc', error: { type: 'x' }, original_message: { a: 1 }, replayed_at: null },
  ])
})

describe('positions', () => {
  test('are stored with their batch, and an overtaken writer is fenced and rolled back', async () => {
    await admin.query('create table t (id int primary key)')
    const first = await open({})
    expect(await first.highWater([0, 1])).toEqual(new Map())
    await first.write([rec({ id: 1 })], at(10))
    await expect(first.write([rec({ id: 1 }), rec({ id: 'no number' })], at(20))).rejects.toMatchObject({ class: 'record' })
    const second = await open({})
    expect(await second.highWater([0, 1])).toEqual(at(10))
    await expect(first.write([rec({ id: 2 })], at(11))).rejects.toMatchObject({ class: 'fenced' })
    await second.write([rec({ id: 3 })], at(12))
    expect(await rows()).toEqual([{ id: 1 }, { id: 3 }])
    expect(await rows('select flow, source, position, epoch::int from brokkr_positions where position is not null')).toEqual([
      { flow: 'test/flow', source: 'origin/0', position: 12, epoch: 2 },
    ])
    expect(await (await open({})).highWater()).toEqual(at(12))
    await second.close()
    const third = await open({})
    await third.highWater([0])
    await third.forget()
    expect(await third.highWater([0])).toEqual(new Map())
  })

  test('a fenced writer is rejected before a COPY as well', async () => {
    await admin.query('create table t (id int primary key)')
    const many = (from: number) => Array.from({ length: 250 }, (_, index) => rec({ id: from + index }))
    const first = await open({})
    await first.highWater([0])
    await first.write(many(0), at(10))
    await (await open({})).highWater([0])
    await expect(first.write(many(1000), at(11))).rejects.toMatchObject({ class: 'fenced' })
    expect(await rows('select count(*)::int as n from t')).toEqual([{ n: 250 }])
  })

  test('a writer fenced in one partition is fenced in all', async () => {
    await admin.query('create table t (id int primary key)')
    const first = await open({ upsertMode: true })
    await first.highWater([0, 1])
    const both = (value: number) => new Map([0, 1].map((partition) => [partition, value]))
    await first.write([rec({ id: 1 })], both(10))
    const second = await open({ upsertMode: true })
    expect(await second.highWater([1])).toEqual(new Map([[1, 10]]))
    await expect(first.write([rec({ id: 2 })], both(11))).rejects.toMatchObject({ class: 'fenced' })
    expect(await rows()).toEqual([{ id: 1 }])
    expect(await rows('select distinct position from brokkr_positions')).toEqual([{ position: 10 }])
  })

  test('a commit with a lost response is checked, not repeated', { timeout: longMs }, async () => {
    await admin.query('create table t (id int); create table waiting (x int)')
    // The commit itself takes a while, so that its answer can be cut off.
    await admin.query(
      `create function slow() returns trigger language plpgsql as $$ begin if new.id = 2 then perform pg_sleep(1); end if; return null; end $$`,
    )
    await admin.query('create constraint trigger slow after insert on t deferrable initially deferred for each row execute function slow()')
    const { url: connectionString, proxy } = await proxiedPostgres(database.url)
    onTestFinished(() => proxy.close())
    const sink = await open({ connectionString })
    await sink.highWater([0])
    await sink.write([rec({ id: 1 })], at(5))
    const writing = sink.write([rec({ id: 2 })], at(6)).catch((error: unknown) => error)
    await waitFor(
      'the commit to be under way',
      async () =>
        (await rows(`select 1 as n from pg_stat_activity where wait_event = 'PgSleep' and datname = current_database()`)).length === 1,
    )
    proxy.halfOpen('toClient')
    await waitFor('the row to be there', async () => (await rows('select id from t')).length === 2)
    proxy.cut()
    expect(await writing).toMatchObject({ class: 'transient' })
    proxy.heal()
    await sink.connect()
    await sink.write([rec({ id: 2 })], at(6))
    await sink.write([rec({ id: 3 })], at(7))
    expect(await rows('select id from t order by id')).toEqual([{ id: 1 }, { id: 2 }, { id: 3 }])
  })

  test('close does not wait for queries on a half-open connection', { timeout: longMs }, async () => {
    await admin.query('create table t (id int)')
    const { url: connectionString, proxy } = await proxiedPostgres(database.url)
    onTestFinished(() => proxy.close())
    const sink = await open({ connectionString, unknownFields: 'addColumn' })
    // A batch in steps opens the second connection.
    await sink.write([rec({ id: 1, more: 'a' })], at(1))
    proxy.halfOpen()
    const reading = sink.highWater([0]).catch((error: unknown) => error)
    await sink.close()
    expect(await reading).toMatchObject({ class: 'transient' })
  })

  test('a batch in steps is written after a canceled commit', async () => {
    await admin.query('create table t (id int)')
    const proxy = await postgresWithFailingQuery(database.url)
    onTestFinished(() => proxy.close())
    const sink = await open({ connectionString: proxy.url, unknownFields: 'addColumn' })
    await sink.highWater([0])
    for (const text of ['commit', 'rollback']) {
      proxy.failNext(text)
      // A failed rollback follows a failed batch: the second batch has a value that the table rejects.
      const batch = [rec({ id: text === 'commit' ? 1 : 'no number' })]
      await expect(sink.write(batch, at(1))).rejects.toThrow(/57014|22P02/)
    }
    expect(proxy.failures).toBe(2)
    expect(await rows()).toEqual([])
    await sink.write([rec({ id: 1 })], at(1))
    expect(await rows()).toEqual([{ id: 1 }])
  })

  test('a batch that failed before its commit is written again', async () => {
    await admin.query('create table t (id int)')
    const [sink, other] = [await open({}), await database.connect()]
    onTestFinished(() => other.end())
    await sink.highWater([0])
    await sink.write([rec({ id: 1 })], at(10))
    await other.query('begin; lock table t in access exclusive mode')
    // A source that reads back hands out a late row behind newer ones.
    const writing = sink.write([rec({ id: 2 })], at(7)).catch((error: unknown) => error)
    const waiting = `select pid from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
    await waitFor('the insert to wait', async () => (await rows(waiting)).length === 1)
    await admin.query(`select pg_terminate_backend(pid) from (${waiting}) w`)
    expect(await writing).toMatchObject({ class: 'transient' })
    await other.query('commit')
    await sink.connect()
    await sink.write([rec({ id: 2 })], at(7))
    expect(await rows()).toEqual([{ id: 1 }, { id: 2 }])
  })

  const lockWaits = async (): Promise<number> =>
    (await rows(`select 1 as n from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`)).length

  test.each([
    ['in one trip', 1],
    ['by COPY', 250],
  ])('a batch %s that timed out on a lock is written once', async (_how, count) => {
    await admin.query('create table t (id int)')
    const many = (from: number) => Array.from({ length: count }, (_, index) => rec({ id: from + index }))
    const [sink, other] = [await open({}), await database.connect()]
    onTestFinished(() => other.end())
    await sink.highWater()
    await other.query('begin; lock table t in share mode')
    const giveUp = new AbortController()
    const first = sink.write(many(1), at(5), giveUp.signal).catch((error: unknown) => error)
    await waitFor('the first attempt to wait', async () => (await lockWaits()) === 1)
    giveUp.abort(new Error('the flush limit'))
    expect(await first).toMatchObject({ class: 'transient' })
    await sink.connect()
    const second = sink.write(many(1), at(5)).catch((error: unknown) => error)
    await waitFor('the second attempt to wait', async () => (await lockWaits()) === 2)
    await other.query('commit')
    const late = await second
    if (late !== undefined) {
      expect(late).toMatchObject({ class: 'transient' })
      await sink.connect()
      await sink.write(many(1), at(5))
    }
    await sink.write([rec({ id: 1000 })], at(6))
    await waitFor('every attempt to end', async () => (await lockWaits()) === 0)
    expect(await rows('select count(*)::int as n, count(distinct id)::int as d from t')).toEqual([{ n: count + 1, d: count + 1 }])
  })

  /** Lets every commit of rows of `t` wait until `holder` releases its lock: the rows are written, the commit has not been answered. */
  async function holdCommits(holder: pg.Client): Promise<void> {
    await holder.query('select pg_advisory_lock(7)')
    await admin.query(
      'create function wait_at_commit() returns trigger language plpgsql as $$ begin perform pg_advisory_xact_lock(7); return null; end $$',
    )
    await admin.query(
      'create constraint trigger waits after insert on t deferrable initially deferred for each row execute function wait_at_commit()',
    )
  }

  test('a batch that committed late is not written again in parts', async () => {
    await admin.query('create table t (id int)')
    const [sink, other] = [await open({}), await database.connect()]
    onTestFinished(() => other.end())
    await sink.highWater([0])
    await sink.write([rec({ id: 1 })], at(1))
    await holdCommits(other)
    const giveUp = new AbortController()
    const first = sink.write([rec({ id: 2 }), rec({ id: 3 })], at(3), giveUp.signal).catch((error: unknown) => error)
    await waitFor('the first commit to wait', async () => (await lockWaits()) === 1)
    giveUp.abort(new Error('the flush limit'))
    await first
    await other.query('select pg_advisory_unlock(7)')
    await waitFor('the late commit', async () => (await rows('select id from t')).length === 3)
    await sink.connect()
    await sink.write([rec({ id: 2 })], at(2))
    await sink.write([rec({ id: 3 })], at(3))
    await sink.write([rec({ id: 4 })], at(4))
    expect(await rows()).toEqual([1, 2, 3, 4].map((id) => ({ id })))
  })

  test('a writer is fenced at the next batch after its own late commit', async () => {
    await admin.query('create table t (id int)')
    const [sink, other] = [await open({}), await database.connect()]
    onTestFinished(() => other.end())
    await sink.highWater([0])
    await holdCommits(other)
    const giveUp = new AbortController()
    const first = sink.write([rec({ id: 1 })], at(1), giveUp.signal).catch((error: unknown) => error)
    await waitFor('the first commit to wait', async () => (await lockWaits()) === 1)
    giveUp.abort(new Error('the flush limit'))
    await first
    await other.query('select pg_advisory_unlock(7)')
    await waitFor('the late commit', async () => (await rows()).length === 1)
    await (await open({})).highWater([0])
    await sink.connect()
    await sink.write([rec({ id: 1 })], at(1))
    await expect(sink.write([rec({ id: 2 })], at(2))).rejects.toMatchObject({ class: 'fenced' })
    expect(await rows()).toEqual([{ id: 1 }])
  })

  test('a writer whose position another writer moved is fenced', async () => {
    await admin.query('create table t (id int)')
    const sink = await open({})
    await sink.highWater([0])
    await sink.write([rec({ id: 1 })], at(1))
    await admin.query(`update brokkr_positions set position = '9'`)
    await expect(sink.write([rec({ id: 2 })], at(2))).rejects.toMatchObject({ class: 'fenced' })
    expect(await rows()).toEqual([{ id: 1 }])
  })

  test('without CREATE, positions are unavailable, or refused if required', async () => {
    await admin.query(`create table t (id int primary key)`)
    const role = `writer_${database.name}`
    await admin.query(
      `create role ${role} login password 'pw'; grant insert, select, update, delete on t to ${role}; revoke create on schema public from public`,
    )
    onTestFinished(async () => {
      await admin.query(`drop owned by ${role}; drop role ${role}`).catch(() => undefined)
    })
    const connectionString = database.url.replace(/\/\/[^@]*@/, `//${role}:pw@`)
    const connect = (exactlyOnce: string) => {
      const sink = postgresqlSink.open(sinkConfig('postgresql', { connectionString, table: 't', exactlyOnce }), sinkContext())
      onTestFinished(() => sink.close())
      return sink.connect()
    }
    expect(await connect('auto')).toMatchObject({ exactlyOnce: 'Unavailable', reason: expect.stringContaining('may not create') as string })
    await expect(connect('required')).rejects.toMatchObject({
      class: 'config',
      message: expect.stringContaining('may not create') as string,
    })
    expect(await connect('off')).toEqual({ exactlyOnce: 'AtLeastOnce', isUpsert: false })
  })
})

describe('failures', () => {
  test('a missing table is class config; a recreated or altered one is used', async () => {
    await expect(open({})).rejects.toMatchObject({ class: 'config', message: 'table t does not exist, and autoCreateTable is off' })
    await admin.query('create table t (id int primary key)')
    const sink = await open({})
    await sink.write([rec({ id: 1 })], at(1))
    await admin.query('drop table t')
    await expect(sink.write([rec({ id: 2 })], at(2))).rejects.toMatchObject({ class: 'config' })
    await admin.query('create table t (id int primary key)')
    await sink.write([rec({ id: 3 })], at(3))
    await admin.query('alter table t rename column id to other; alter table t add column id text')
    await sink.write([rec({ id: 'text' })], at(4)).catch(() => undefined)
    await sink.write([rec({ id: 'text', other: 9 })], at(5))
    expect(await rows('select id, other from t order by other')).toEqual([
      { id: null, other: 3 },
      { id: 'text', other: 9 },
    ])
  })

  test('errors contain no row values, and COPY errors name the record', async () => {
    await admin.query('create table t (id int primary key, n int check (n < 100))')
    const sink = await open({})
    const secret = 'hidden-4711'
    for (const bad of [{ id: 1, n: secret }, { id: secret }, { id: 1, n: 4711 }]) {
      const failure = await sink.write([rec(bad)], at(1)).catch((error: unknown) => error as ConnectorError)
      expect(failure).toMatchObject({ class: 'record' })
      expect(`${String(failure)}${JSON.stringify(failure)}${String((failure as ConnectorError).cause)}`).not.toContain('4711')
    }
    const many = Array.from({ length: 300 }, (_, index) => rec({ id: index, n: index === 123 ? 'x' : 1 }))
    await expect(sink.write(many, at(2))).rejects.toMatchObject({ class: 'record', recordIndex: 123 })
  })

  test('connection failures are classified: password, unreachable, forbidden', async () => {
    const wrong = database.url.replace(/\/\/[^@]*@/, '//postgres:wrong-4711@')
    const connect = (connectionString: string, allowLoopback = true) =>
      postgresqlSink.open(sinkConfig('postgresql', { connectionString, table: 't' }), sinkContext({ allowLoopback })).connect()
    const failure = await connect(wrong).catch((error: unknown) => error as ConnectorError)
    expect(failure).toMatchObject({ class: 'config', type: 'auth_error' })
    expect(`${(failure as ConnectorError).message}${JSON.stringify(failure)}`).not.toContain('4711')
    await expect(connect('postgres://u:p@127.0.0.1:1/x')).rejects.toMatchObject({ class: 'transient', type: 'connection_error' })
    await expect(connect('host=169.254.169.254 dbname=x user=u')).rejects.toMatchObject({ class: 'config' })
    await expect(connect(database.url, false)).rejects.toMatchObject({ class: 'config' })
    await expect(connect('nonsense with a secret')).rejects.toThrow('connectionString is neither a postgres:// URL nor key=value pairs')
  })

  test('key=value pairs connect as well', async () => {
    await admin.query('create table t (id int primary key)')
    const { host, port, user, password, database: name } = new pg.Client({ connectionString: database.url })
    const text = `host='${host}' port=${port} user=${user} password='${password}' dbname=${name}`
    await (await open({ connectionString: text })).write([rec({ id: 1 })], at(1))
    expect(await rows()).toEqual([{ id: 1 }])
  })
})

test('the preview checks records without side effects', async () => {
  await admin.query('create table t (id int primary key)')
  const config = sinkConfig('postgresql', { connectionString: database.url, table: 't' })
  const answers = await postgresqlSink.check(config, sinkContext(), [rec({ id: 1 }), rec({ id: 'x' }), rec({ no: 1 })])
  expect(answers.map((answer) => answer?.type)).toEqual([undefined, 'invalid_data', 'invalid_data'])
  expect(await rows()).toEqual([])
  expect(await rows(`select to_regclass('brokkr_positions') as positions`)).toEqual([{ positions: null }])
})
