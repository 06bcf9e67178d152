// The ClickHouse sink on a real server: exact values, repeats after lost answers, tables it creates, and what it rejects.
import type { JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import { type FrontDecision, startHttpFront } from '@brokkr/testing/faults/http-front.ts'
import { type ClickhouseDatabase, clickhouseDatabase } from '@brokkr/testing/servers/clickhouse.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { newMessage } from '../../message/message.ts'
import type { ConnectorError, Rec, Sink, SinkContext } from '../connector.ts'
import { sinkConfig } from '../test-parts/configs.ts'
import { sinkContext } from '../test-parts/contexts.ts'
import { clickhouseSink } from './index.ts'

const longMs = 180_000
const plain = `engine = MergeTree order by id settings non_replicated_deduplication_window = 100`
let database: ClickhouseDatabase
beforeEach(async () => {
  database = await clickhouseDatabase()
})

async function open(config: object, context: Partial<SinkContext> = {}): Promise<Sink> {
  const sink = clickhouseSink.open(
    sinkConfig('clickhouse', { connectionString: database.url, table: 't', ...config }),
    sinkContext(context),
  )
  onTestFinished(() => sink.close())
  await sink.connect()
  return sink
}

let position = 0
const rec = (json: object | string): Rec =>
  newMessage({
    raw: Buffer.from(typeof json === 'string' ? json : JSON.stringify(json)),
    metadata: { topic: 'a' },
    position: (position += 1),
    partition: 0,
  })
const at = (value: number) => new Map([[0, value]])
const count = async (): Promise<number> => (await database.rows<{ n: number }>('select count() as n from t'))[0]!.n
const numbered = (from: number, total: number): Rec[] =>
  Array.from({ length: total }, (_, index) => rec({ id: from + index, s: `row ${index}` }))
const failure = (work: Promise<unknown>): Promise<ConnectorError> =>
  work.then(
    () => Promise.reject(new Error('it did not fail')),
    (error) => error,
  )

/** Passes everything to the server; the answers to inserts can be lost after it has stored them. */
async function losingFront() {
  const front = await startHttpFront(database.server)
  onTestFinished(() => front.close())
  return {
    url: front.url,
    loseInserts: () => front.decide(({ path }) => (path.includes('query=insert') ? 'lose' : 'pass')),
    heal: () => front.decide(() => 'pass'),
  }
}

/** A checkpoint in memory: what a sink saved last. */
function savedState() {
  const saved: { state?: JsonObject; saves: number } = { saves: 0 }
  const saveState = async (state: JsonObject) => {
    saved.state = JSON.parse(JSON.stringify(state)) as JsonObject
    saved.saves += 1
  }
  return { saved, saveState }
}

describe('every row exactly once', () => {
  test('[D101] many rows are written with their exact count', { timeout: longMs }, async () => {
    await database.run(`create table t (id Int64, s String, _brokkr_batch LowCardinality(String)) ${plain}`)
    const sink = await open({})
    const total = size('D101.rows')
    for (let from = 0; from < total; from += 10_000) await sink.write(numbered(from, 10_000), at(from))
    expect(await database.rows('select count() as n, uniqExact(id) as ids, uniqExact(_brokkr_batch) as batches from t')).toEqual([
      { n: total, ids: total, batches: total / 10_000 },
    ])
  })

  test('[D101] a batch whose answer is cut is found by its label and not stored twice', { timeout: longMs }, async () => {
    await database.run(`create table t (id Int64, s String, _brokkr_batch LowCardinality(String)) ${plain}`)
    const proxy = await losingFront()
    const sink = await open({ connectionString: `${proxy.url}/${database.name}` })
    const batch = numbered(0, 1000)
    proxy.loseInserts()
    const error = await failure(sink.write(batch, at(1)))
    expect(error).toMatchObject({ class: 'transient', type: 'connection_error' })
    expect(await count()).toBe(1000)
    proxy.heal()
    await sink.connect()
    await sink.write(batch, at(1))
    expect(await count()).toBe(1000)
  })

  test('[D101] a token that the server logged without its rows does not lose the batch', { timeout: longMs }, async () => {
    await database.run(`create table t (id Int64, s String, _brokkr_batch LowCardinality(String)) ${plain}`)
    const proxy = await losingFront()
    const sink = await open({ connectionString: `${proxy.url}/${database.name}` })
    const batch = numbered(0, 10)
    proxy.loseInserts()
    await failure(sink.write(batch, at(1)))
    // As after a kill between the log and the rename of the part: the token is known, the rows are gone.
    await database.run(`delete from t where id >= 0 settings lightweight_deletes_sync = 2`)
    proxy.heal()
    await sink.connect()
    await sink.write(batch, at(1))
    expect(await count()).toBe(10)
  })

  test('[D101] a stored batch is found after the server has forgotten its token', { timeout: longMs }, async () => {
    await database.run(
      `create table t (id Int64, s String, _brokkr_batch LowCardinality(String)) engine = MergeTree order by id settings non_replicated_deduplication_window = 2`,
    )
    const proxy = await losingFront()
    const sink = await open({ connectionString: `${proxy.url}/${database.name}` })
    const batch = numbered(0, 10)
    proxy.loseInserts()
    await failure(sink.write(batch, at(1)))
    expect(await count()).toBe(10)
    for (let other = 100; other < 105; other += 1) await database.run(`insert into t (id) values (${other})`)
    proxy.heal()
    await sink.connect()
    await sink.write(batch, at(1))
    expect(await count()).toBe(15)
  })

  test('[D101] rejected records leave nothing behind in the state of the sink', { timeout: longMs }, async () => {
    await database.run(`create table t (id Int64, u UUID, _brokkr_batch LowCardinality(String)) ${plain}`)
    const { saved, saveState } = savedState()
    const sink = await open({ exactlyOnce: 'required' }, { saveState })
    for (let id = 1; id <= 5; id += 1)
      expect(await failure(sink.write([rec({ id, u: 'bad' })], at(position)))).toMatchObject({ class: 'record' })
    await sink.write([rec({ id: 6 })], at(position))
    expect(saved.state?.['doubts']).toHaveLength(1)
    expect(await count()).toBe(1)
  })

  test('[D101] rows that only a view of the table rejects are not stored twice', { timeout: longMs }, async () => {
    await database.run(`create table t (id Int64, s String, _brokkr_batch LowCardinality(String)) ${plain}`)
    await database.run('create table sums (n Int64) engine = MergeTree order by n')
    await database.run('create materialized view v to sums as select toInt64(s) as n from t')
    const sink = await open({})
    const [good, bad] = [rec({ id: 1, s: '1' }), rec({ id: 2, s: 'x' })]
    expect(await failure(sink.write([good, bad], at(position)))).toMatchObject({ class: 'record' })
    await sink.write([good], at(position - 1))
    await sink.write([bad], at(position))
    expect(await count()).toBe(2)
  })

  test('[D101] after a restart the batch in doubt is formed again and stored once', { timeout: longMs }, async () => {
    await database.run(`create table t (id Int64, s String, _brokkr_batch LowCardinality(String)) ${plain}`)
    const { saved, saveState } = savedState()
    const first = await open({ exactlyOnce: 'required' }, { saveState })
    const [a, b, c] = [numbered(0, 5), numbered(5, 5), numbered(10, 5)]
    const last = (records: Rec[]) => new Map([[0, records.at(-1)!.position]])
    await first.write(a, last(a))
    await first.write(b, last(b))
    // The process is killed here: it does not know whether b was stored. The next one reads all of it again, and c with it.
    const second = await open({ exactlyOnce: 'required' }, { saveState, storedState: saved.state })
    expect(await second.highWater()).toEqual(last(a))
    const reread = (records: Rec[]) => records.map((record) => newMessage({ ...record, raw: record.raw, json: undefined }))
    await second.write([...reread(b), ...c], last(c))
    expect(await count()).toBe(15)
    // Once before each batch; b is found by its label.
    expect(saved.saves).toBe(3)
    // And once more, when the batch in doubt was never sent.
    const killed = async (state: JsonObject) => {
      saved.state = state
      throw new Error('killed')
    }
    const third = await open({ exactlyOnce: 'required' }, { saveState: killed })
    await third.highWater()
    const d = numbered(15, 5)
    await failure(third.write(d, last(d)))
    const fourth = await open({ exactlyOnce: 'required' }, { saveState, storedState: saved.state })
    await fourth.highWater()
    await fourth.write(reread(d), last(d))
    expect(await count()).toBe(20)
  })

  test('a table that loses its batch column under a flow is reported and written at least once', async () => {
    await database.run(`create table t (id Int64, _brokkr_batch LowCardinality(String)) ${plain}`)
    const sink = await open({})
    await sink.write([rec({ id: 1 })], at(1))
    await database.run('alter table t drop column _brokkr_batch')
    const record = rec({ id: 2 })
    expect(await failure(sink.write([record], at(2)))).toMatchObject({ class: 'config', message: expect.stringContaining('was changed') })
    expect(await sink.connect()).toMatchObject({ exactlyOnce: 'Unavailable' })
    await sink.write([record], at(2))
    expect(await count()).toBe(2)
  })

  test('[D101] ReplacingMergeTree with versions keeps the newest row of a key', async () => {
    const sink = await open({ autoCreateTable: true, upsertMode: true, replacingVersionColumn: 'v' })
    await sink.write([rec({ id: 1, v: 2, s: 'new' }), rec({ id: 2, v: 1, s: 'a' })], at(1))
    await sink.write([rec({ id: 1, v: 1, s: 'old' }), rec({ id: 2, v: 3, s: 'b' })], at(2))
    expect(await database.rows('select id, v, s from t final order by id')).toEqual([
      { id: 1, v: 2, s: 'new' },
      { id: 2, v: 3, s: 'b' },
    ])
    expect(await failure(sink.write([rec({ v: 1 })], at(3)))).toMatchObject({ class: 'record', recordIndex: 0 })
    const gone = newMessage({ raw: Buffer.from('{"id":1,"v":9}'), metadata: { operation: 'delete' }, position: 9, partition: 0 })
    expect(await failure(sink.write([gone], at(4)))).toMatchObject({ class: 'record', message: expect.stringContaining('is a delete') })
  })

  test.each([
    ['id Int64', plain, 'no column _brokkr_batch'],
    ['id Int64, _brokkr_batch LowCardinality(String)', 'engine = MergeTree order by id', 'non_replicated_deduplication_window'],
    ['id Int64, _brokkr_batch LowCardinality(String)', `engine = MergeTree partition by id order by id`, 'partition key'],
  ])('a table that cannot find repeats is reported, and refused if exactly-once is required: %s', async (columns, engine, reason) => {
    await database.run(`create table t (${columns}) ${engine}`)
    const sink = await open({})
    expect(await sink.connect()).toMatchObject({ exactlyOnce: 'Unavailable', reason: expect.stringContaining(reason) })
    await sink.write([rec({ id: 1 })], at(1))
    expect(await count()).toBe(1)
    const { saveState } = savedState()
    expect(await failure(open({ exactlyOnce: 'required' }, { saveState }))).toMatchObject({
      class: 'config',
      message: expect.stringContaining(reason),
    })
  })
})

describe('values and tables', () => {
  test('values of every type are stored exactly', async () => {
    await database.run(
      `create table t (id UInt64, d Decimal(38, 10), f Float64, s Nullable(String), ts DateTime64(6), day Date, b Bool, a Array(Int64), o String, def String default 'x') ${plain}`,
    )
    const sink = await open({})
    await sink.write(
      [
        rec(
          '{"id":18446744073709551615,"d":12345678901234567890.0123456789,"f":0.1,"s":"ü\\n\\"","ts":"2026-01-16T13:55:03.123456+08:00","day":"2026-01-02","b":true,"a":[1,9007199254740993],"o":{"k":[1,{"x":12345678901234567890}]}}',
        ),
        rec({ id: 1, d: 1, f: 1, s: null, ts: 1700000000123, day: '2026-01-02', b: false, a: [], o: 'text' }),
      ],
      at(1),
    )
    expect(
      await database.run(
        `select * from t order by id format JSONEachRow settings date_time_output_format = 'iso', output_format_json_quote_decimals = 0, output_format_json_quote_64bit_integers = 0`,
      ),
    ).toBe(
      `{"id":1,"d":1,"f":1,"s":null,"ts":"2023-11-14T22:13:20.123000Z","day":"2026-01-02","b":false,"a":[],"o":"text","def":"x"}
{"id":18446744073709551615,"d":12345678901234567890.0123456789,"f":0.1,"s":"ü\\n\\"","ts":"2026-01-16T05:55:03.123456Z","day":"2026-01-02","b":true,"a":[1,9007199254740993],"o":"{\\"k\\":[1,{\\"x\\":12345678901234567890}]}","def":"x"}
`,
    )
  })

  test.each([
    ['{"id":"abc"}', 'the value of id is not a whole number'],
    ['{"id":36893488147419103232}', 'the value of id is outside the range of Int64'],
    ['{"id":null}', 'the value of id does not accept null'],
    ['{"id":1,"u":"not a uuid, hunter2"}', 'in column u'],
    ['{"id":1,"a":[1,300]}', 'the value of a has an element that is outside the range of Int8'],
    ['{"id":1,"x":2}', 'no column for the field x'],
    ['{"id":1,"_brokkr_batch":"x"}', 'reserved'],
    ['[1]', 'the payload is not an object'],
    ['not json', 'the payload is not an object'],
    ['{"id":1}{"id":2}', 'the payload is not an object'],
  ])('a record that does not fit is rejected by its index and without its values: %s', async (payload, message) => {
    await database.run(`create table t (id Int64, u UUID, a Array(Int8), _brokkr_batch LowCardinality(String)) ${plain}`)
    const sink = await open({})
    const error = await failure(sink.write([rec({ id: 1 }), rec(payload)], at(1)))
    expect(error).toMatchObject({ class: 'record', recordIndex: 1, message: expect.stringContaining(message) })
    expect(error.message).not.toContain('hunter2')
    await sink.write([rec({ id: 1 })], at(1))
    expect(await count()).toBe(1)
  })

  test('a key that stands twice in a payload keeps its last value', async () => {
    await database.run(`create table t (id Int64, s String) ${plain}`)
    const sink = await open({})
    await sink.write([rec('{"id":1,"id":2}')], at(1))
    expect(await database.rows('select id from t')).toEqual([{ id: 2 }])
  })

  test('whole numbers with a point or an exponent are stored in one insert', async () => {
    await database.run(`create table t (id Int64, _brokkr_batch LowCardinality(String)) ${plain}`)
    await (await open({})).write([rec('{"id":1.0}'), rec('{"id":2e2}'), rec('{"id":9007199254740993}')], at(1))
    expect(await database.rows('select toString(id) as id from t order by t.id')).toEqual([
      { id: '1' },
      { id: '200' },
      { id: '9007199254740993' },
    ])
  })

  test('a column that exists but cannot be written is not dropped silently', async () => {
    await database.run(`create table t (id Int64, x Int64 materialized id) ${plain}`)
    const sink = await open({ unknownFields: 'addColumn' })
    expect(await failure(sink.write([rec({ id: 1, x: 5 })], at(1)))).toMatchObject({
      class: 'record',
      message: 'no column for the field x',
    })
  })

  test('unknown fields follow their policy', async () => {
    await database.run(`create table t (id Int64) ${plain}`)
    await (await open({ unknownFields: 'ignore' })).write([rec({ id: 1, x: 1 })], at(1))
    await (await open({ unknownFields: 'addColumn' })).write([rec({ id: 2, x: 1.5, y: { z: 1 } })], at(2))
    expect(await database.rows('select id, x, y from t order by id')).toEqual([
      { id: 1, x: null, y: null },
      { id: 2, x: 1.5, y: '{"z":1}' },
    ])
  })

  test('a table is created from the first batch, and a table that is missing is reported', async () => {
    expect(await failure(open({}))).toMatchObject({ class: 'config', message: expect.stringContaining('table t does not exist') })
    const sink = await open({ autoCreateTable: true })
    await sink.write(
      [rec('{"id":1,"n":1.5,"ok":true,"at":"2026-01-02T03:04:05.123456Z","big":123456789012345678901234567890,"o":{"a":1}}')],
      at(1),
    )
    expect(await database.rows(`select name, type from system.columns where database = '${database.name}' and table = 't'`)).toEqual([
      { name: 'id', type: 'Int64' },
      { name: 'n', type: 'Nullable(Float64)' },
      { name: 'ok', type: 'Nullable(Bool)' },
      { name: 'at', type: 'Nullable(DateTime64(6))' },
      { name: 'big', type: 'Nullable(String)' },
      { name: 'o', type: 'Nullable(String)' },
      { name: '_brokkr_batch', type: 'LowCardinality(String)' },
    ])
    expect(await database.rows('select big, o from t')).toEqual([{ big: '123456789012345678901234567890', o: '{"a":1}' }])
    expect(await sink.connect()).toMatchObject({ exactlyOnce: 'AtLeastOnce', reason: expect.stringContaining('required') })
  })

  test('raw mode stores payload and metadata', async () => {
    await (await open({ autoCreateTable: true, rawMode: true })).write([rec({ id: 1, value: 5 }), rec('text')], at(1))
    expect(await database.rows('select data, _metadata from t order by data')).toEqual([
      { data: '"text"', _metadata: '{"topic":"a"}' },
      { data: '{"id":1,"value":5}', _metadata: '{"topic":"a"}' },
    ])
  })

  test('a wrong password and a dropped table are reported without a secret', async () => {
    await database.run(`create table t (id Int64) ${plain}`)
    await (await open({ connectionString: database.appUrl })).write([rec({ id: 1 })], at(1))
    const wrong = database.appUrl.replace(/:[^:@/]+@/, ':hunter2@')
    const error = await failure(open({ connectionString: wrong }))
    expect(error).toMatchObject({ class: 'config', type: 'auth_error' })
    expect(error.message).not.toContain('hunter2')
    const sink = await open({})
    await database.run('drop table t sync')
    expect(await failure(sink.write([rec({ id: 2 })], at(2)))).toMatchObject({ class: 'config' })
    await database.run(`create table t (id Int64) ${plain}`)
    await sink.connect()
    await sink.write([rec({ id: 2 })], at(2))
    expect(await count()).toBe(1)
  })

  test('overload, quota and lost answers are retried, and a refused login is reported', async () => {
    await database.run(`create table t (id Int64, _brokkr_batch LowCardinality(String)) ${plain}`)
    const front = await startHttpFront(database.server)
    onTestFinished(() => front.close())
    const sink = await open({ connectionString: `${front.url}/${database.name}` })
    const record = rec({ id: 1 })
    const quota = { 'x-clickhouse-exception-code': '201' }
    const answers: [FrontDecision, object][] = [
      [
        { status: 503, headers: { 'retry-after': '3' }, body: '<h1>hunter2</h1>' },
        { class: 'transient', retryAfterMs: 3000 },
      ],
      [{ status: 500, headers: quota, body: 'Code: 201. DB::Exception: Quota exceeded. (QUOTA_EXCEEDED)' }, { class: 'transient' }],
      [
        { status: 401, body: 'hunter2' },
        { class: 'config', type: 'auth_error' },
      ],
      ['lose', { class: 'transient', type: 'connection_error' }],
    ]
    for (const [decision, expected] of answers) {
      front.decide(() => decision)
      const error = await failure(sink.write([record], at(1)))
      expect(error).toMatchObject(expected)
      expect(error.message).not.toContain('hunter2')
    }
    front.decide(() => 'pass')
    await sink.write([record], at(1))
    expect(await count()).toBe(1)
  })

  test('a server that is not allowed is not called', async () => {
    expect(await failure(open({}, { allowLoopback: false }))).toMatchObject({ class: 'config', type: 'connection_error' })
  })

  test('the preview reports what a record would meet', async () => {
    await database.run(`create table t (id Int64) ${plain}`)
    const config = sinkConfig('clickhouse', { connectionString: database.url, table: 't' })
    const found = await clickhouseSink.check(config, sinkContext(), [rec({ id: 1 }), rec({ id: 'x' })])
    expect(found).toEqual([undefined, { type: 'invalid_data', message: 'the value of id is not a whole number' }])
    expect(await count()).toBe(0)
  })
})
