// The Iceberg sink on a real Nessie and a real S3 service, read back by Trino: values of every type, conflicts, lost answers, takeovers,
// new columns, partitions, and what it rejects.
import { type HttpFront, startHttpFront } from '@brokkr/testing/faults/http-front.ts'
import { type NessieNamespace, nessieNamespace } from '@brokkr/testing/servers/nessie.ts'
import { type TrinoSchema, trinoOnNessie } from '@brokkr/testing/servers/trino.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { newMessage } from '../../message/message.ts'
import type { ConnectorError, Rec, Sink, SinkContext } from '../connector.ts'
import { sinkConfig } from '../test-parts/configs.ts'
import { sinkContext } from '../test-parts/contexts.ts'
import { lakeConfig, listObjects, listSummaries, loadState } from '../test-parts/lake.ts'
import { nessieSink } from './index.ts'

const timeout = 240_000
let place: NessieNamespace
let trino: TrinoSchema
beforeAll(async () => {
  place = await nessieNamespace()
  trino = await trinoOnNessie(place)
}, 600_000)

async function open(config: object, context: Partial<SinkContext> = {}): Promise<Sink> {
  const sink = nessieSink.open(sinkConfig('nessie', lakeConfig(place, config)), sinkContext(context))
  onTestFinished(() => sink.close())
  await sink.connect()
  return sink
}
async function front(): Promise<HttpFront> {
  const started = await startHttpFront(place.url)
  onTestFinished(() => started.close())
  return started
}

let position = 0
const rec = (json: object | string): Rec =>
  newMessage({
    raw: Buffer.from(typeof json === 'string' ? json : JSON.stringify(json)),
    metadata: { topic: 'a' },
    position: (position += 1),
    partition: 0,
  })
/** Positions after the records. */
const after = (records: readonly Rec[]) => new Map([[0, records.at(-1)!.position]])
const none = new Map()
const write = (sink: Sink, records: readonly Rec[]) => sink.write(records, after(records))
const failure = (work: Promise<unknown>): Promise<ConnectorError> =>
  work.then(
    () => Promise.reject(new Error('it did not fail')),
    (error: ConnectorError) => error,
  )
const idsIn = async (table: string): Promise<unknown[]> => (await trino.run(`select id from ${table} order by id`)).map(([id]) => id)
const isCommit =
  (table: string) =>
  ({ method, path }: { method: string; path: string }) =>
    method === 'POST' && path.endsWith(`/tables/${table}`)
const dataFiles = async (table: string) => (await listObjects(place, table)).filter((key) => key.endsWith('.parquet'))

test('[D104] rows of every type are read back equal by Trino', { timeout }, async () => {
  await trino.run(
    `create table types (b boolean, i integer, l bigint, f real, d double, de decimal(38,10), d9 decimal(9,2), d18 decimal(18,4), s varchar, bin varbinary, da date, ti time(6), ts timestamp(6), tz timestamp(6) with time zone, u uuid, a array(bigint), m map(varchar, double), r row(x bigint, y varchar))`,
  )
  const sink = await open({ table: 'types' })
  await write(sink, [
    rec(
      `{"b":true,"i":-2147483648,"l":9223372036854775807,"f":1.5,"d":0.1,"de":-1234567890123456789012345678.0123456789,"d9":-1234567.89,"d18":12345678901234.5678,"s":"it's\\n\\u00fc \\ud83d\\ude00","bin":"aGk=","da":"1969-12-31","ti":"13:55:03.123456","ts":"2026-01-16T13:55:03.123456+08:00","tz":"1969-12-31T23:59:59.999999Z","u":"12151fd2-7586-11e9-8f9e-2a86e4085a59","a":[1,9007199254740993,null],"m":{"k":0.5},"r":{"x":9007199254740993,"y":"q"}}`,
    ),
    rec({ a: [], m: {}, r: {} }),
    rec({}),
  ])
  const [found] = await trino.run(
    `select b, i, cast(l as varchar), f, d, de, d9, d18, s, to_base64(bin), cast(da as varchar), cast(ti as varchar), cast(ts as varchar), cast(tz as varchar), cast(u as varchar), json_format(cast(a as json)), m['k'], cast(r.x as varchar), r.y from types where b`,
  )
  expect(found).toEqual([
    true,
    -2147483648,
    '9223372036854775807',
    1.5,
    0.1,
    '-1234567890123456789012345678.0123456789',
    '-1234567.89',
    '12345678901234.5678',
    "it's\nü 😀",
    'aGk=',
    '1969-12-31',
    '13:55:03.123456',
    '2026-01-16 05:55:03.123456',
    '1969-12-31 23:59:59.999999 UTC',
    '12151fd2-7586-11e9-8f9e-2a86e4085a59',
    '[1,9007199254740993,null]',
    0.5,
    '9007199254740993',
    'q',
  ])
  expect(await trino.run('select count(*) from types where b is null and cardinality(a) = 0 and cardinality(m) = 0')).toEqual([[1]])
  expect(await trino.run('select count(*) from types where a is null and m is null and r is null and de is null')).toEqual([[1]])
  // Bounds of the files do not hide rows.
  const conditions = [
    `l = 9223372036854775807`,
    `de < -1`,
    `d9 = -1234567.89`,
    `s = 'it''s\nü 😀'`,
    `da < date '1970-01-01'`,
    `u is not null`,
  ]
  for (const condition of conditions) expect(await trino.run(`select count(*) from types where ${condition}`)).toEqual([[1]])
})

test('[D104] a table is created from the first batch, and values that no number type holds stay text', { timeout }, async () => {
  const sink = await open({ table: 'created', autoCreateTable: true })
  await write(sink, [
    rec(
      '{"id":9007199254740993,"x":0.5,"ok":true,"at":"2026-01-02T03:04:05.000006Z","big":123456789012345678901234567890,"o":{"a":[1.5]}}',
    ),
    rec('{"id":2,"x":2,"big":1,"n":null}'),
  ])
  expect(await trino.run('select cast(id as varchar), x, ok, cast(at as varchar), big, o, n from created order by id')).toEqual([
    ['2', 2, null, null, '1', null, null],
    ['9007199254740993', 0.5, true, '2026-01-02 03:04:05.000006 UTC', '123456789012345678901234567890', '{"a":[1.5]}', null],
  ])
  const raw = await open({ table: 'raw', autoCreateTable: true, rawMode: true })
  await write(raw, [rec('{"id":1,"value":12345678901234567890}'), rec('plain text')])
  expect(await trino.run('select data, _metadata from raw order by data')).toEqual([
    ['"plain text"', '{"topic":"a"}'],
    ['{"id":1,"value":12345678901234567890}', '{"topic":"a"}'],
  ])
})

test('[D104] two writers and Trino append at once: conflicts are repeated, every row is there once, one snapshot per batch', {
  timeout,
}, async () => {
  // Trino gives up after four conflicts unless told.
  await trino.run('create table shared (id bigint) with (max_commit_retry = 100)')
  const sinks = [await open({ table: 'shared' }, { positionKey: 'one' }), await open({ table: 'shared' }, { positionKey: 'two' })]
  const batches = Array.from({ length: 8 }, (_, batch) => [rec({ id: batch * 2 }), rec({ id: batch * 2 + 1 })])
  const halves = sinks.map(async (sink, which) => {
    for (const batch of batches.filter((_, index) => index % 2 === which)) await write(sink, batch)
  })
  await Promise.all([...halves, trino.run('insert into shared values (100)')])
  expect(await idsIn('shared')).toEqual([...Array(16).keys(), 100])
  const ids = new Set((await listSummaries(place, 'shared')).map((summary) => summary['brokkr.batch-id']).filter((id) => id !== undefined))
  expect(ids.size).toBe(8)
  // No file of an attempt that lost stays behind.
  const lists = (await listObjects(place, 'shared')).filter((key) => /\/snap-/.test(key) && [...ids].some((id) => key.includes(id)))
  expect(lists.length).toBe(8)
  expect((await dataFiles('shared')).length).toBe(9)
})

test('[D104] the answer to a commit is lost: the batch is found and not written again, also as a part', { timeout }, async () => {
  await trino.run('create table lost (id bigint)')
  const proxy = await front()
  let losses = 1
  proxy.decide((request) => (isCommit('lost')(request) && losses-- > 0 ? 'lose' : 'pass'))
  const sink = await open({ table: 'lost', baseURL: proxy.url })
  const batch = [rec({ id: 1 }), rec({ id: 2 }), rec({ id: 3 })]
  expect(await failure(write(sink, batch))).toMatchObject({ class: 'transient', type: 'connection_error' })
  await sink.connect()
  await write(sink, batch.slice(0, 1))
  await write(sink, batch.slice(1))
  await write(sink, [rec({ id: 4 })])
  expect(await idsIn('lost')).toEqual([1, 2, 3, 4])
  expect((await dataFiles('lost')).length).toBe(2)
})

test('[D104] the answer to a commit is lost and the positions are forgotten: the next batch is not fenced', { timeout }, async () => {
  await trino.run('create table forgotten (id bigint)')
  const proxy = await front()
  const sink = await open({ table: 'forgotten', baseURL: proxy.url })
  await sink.highWater([0])
  let losses = 1
  proxy.decide((request) => (isCommit('forgotten')(request) && losses-- > 0 ? 'lose' : 'pass'))
  expect(await failure(write(sink, [rec({ id: 1 })]))).toMatchObject({ class: 'transient' })
  await sink.connect()
  await sink.forget()
  expect(await sink.highWater([0])).toEqual(new Map())
  await write(sink, [rec({ id: 2 })])
  expect(await idsIn('forgotten')).toEqual([1, 2])
})

test('[D104] a commit without an answer keeps its files, also if it did not happen', { timeout }, async () => {
  await trino.run('create table doubtful (id bigint)')
  const proxy = await front()
  let failures = 1
  proxy.decide((request) => (isCommit('doubtful')(request) && failures-- > 0 ? { status: 503, body: '{}' } : 'pass'))
  const sink = await open({ table: 'doubtful', baseURL: proxy.url })
  const batch = [rec({ id: 1 })]
  expect(await failure(write(sink, batch))).toMatchObject({ class: 'transient' })
  const doubtful = await dataFiles('doubtful')
  await write(sink, batch)
  expect(await dataFiles('doubtful')).toEqual(expect.arrayContaining(doubtful))
  expect(doubtful.length).toBe(1)
  expect(await idsIn('doubtful')).toEqual([1])
})

test('[D104] a conflict that is the answer to a repeated request deletes and repeats nothing', { timeout }, async () => {
  await trino.run('create table twice (id bigint)')
  const proxy = await front()
  let conflicts = 2
  proxy.decide((request) => (isCommit('twice')(request) && conflicts-- > 0 ? { passThen: { status: 409, body: '{}' } } : 'pass'))
  const sink = await open({ table: 'twice', baseURL: proxy.url })
  expect(await sink.highWater([0])).toEqual(new Map())
  await write(sink, [rec({ id: 1 })])
  await write(sink, [rec({ id: 2 })])
  expect(conflicts).toBeLessThan(0)
  expect(await idsIn('twice')).toEqual([1, 2])
})

test('[D104] a commit that the catalog refuses leaves no file behind', { timeout }, async () => {
  await trino.run('create table refused (id bigint)')
  const proxy = await front()
  proxy.decide((request) =>
    isCommit('refused')(request) ? { status: 400, body: '{"error":{"message":"no","type":"BadRequest","code":400}}' } : 'pass',
  )
  const sink = await open({ table: 'refused', baseURL: proxy.url })
  const before = await listObjects(place, 'refused')
  const batch = [rec({ id: 1 })]
  expect(await failure(write(sink, batch))).toMatchObject({ class: 'config', message: expect.stringContaining('400 BadRequest: no') })
  expect(await listObjects(place, 'refused')).toEqual(before)
  proxy.decide(() => 'pass')
  await write(sink, batch)
  expect(await idsIn('refused')).toEqual([1])
})

test('[D104] a later owner continues behind the written position, and an earlier writer is fenced', { timeout }, async () => {
  await trino.run('create table owned (id bigint)')
  const first = await open({ table: 'owned' }, { epoch: 1 })
  expect(await first.highWater([0, 1])).toEqual(new Map())
  const batch = [rec({ id: 1 })]
  await write(first, batch)
  // Other writers come in between, and old snapshots go.
  await trino.run('insert into owned values (7)')
  const second = await open({ table: 'owned' }, { epoch: 2 })
  expect(await second.highWater([0])).toEqual(new Map([[0, batch[0]!.position]]))
  const files = await dataFiles('owned')
  expect(await failure(write(first, [rec({ id: 2 })]))).toMatchObject({ class: 'fenced' })
  expect(await dataFiles('owned')).toEqual(files)
  await write(second, [rec({ id: 3 })])
  expect(await idsIn('owned')).toEqual([1, 3, 7])
  const { snapshots } = await loadState(place, 'owned')
  expect(snapshots.at(-1)!.summary).toMatchObject({
    'brokkr.flow': 'test/flow',
    'brokkr.position': `{"origin/0":${position}}`,
    'brokkr.epoch': '2',
  })
  // Of another topic, and after a rewind, nothing is written yet.
  const other = await open({ table: 'owned' }, { epoch: 3, source: { origin: 'other', compare: () => 0 } })
  expect(await other.highWater()).toEqual(new Map())
  await second.forget()
  expect(await (await open({ table: 'owned' }, { epoch: 4 })).highWater()).toEqual(new Map())
})

test('[D105] a new column comes with its rows in one commit', { timeout }, async () => {
  await trino.run('create table wider (id bigint)')
  await trino.run('insert into wider values (1)')
  const sink = await open({ table: 'wider', unknownFields: 'addColumn' })
  await write(sink, [rec('{"id":2,"amount":9007199254740993,"note":"n"}')])
  await write(sink, [rec({ id: 3, amount: 4 })])
  expect(await trino.run('select id, cast(amount as varchar), note from wider order by id')).toEqual([
    [1, null, null],
    [2, '9007199254740993', 'n'],
    [3, '4', null],
  ])
  const summaries = (await listSummaries(place, 'wider')).filter((summary) => summary['brokkr.batch-id'] !== undefined)
  expect(summaries.length).toBe(2)
})

test('[D105] partitionBy makes one file per day and bucket, as Trino partitions them too', { timeout }, async () => {
  const partitionBy = ['day(at)', 'bucket(4, id)', 'truncate(2, name)', 'kind']
  const sink = await open({ table: 'days', autoCreateTable: true, partitionBy })
  const rows = Array.from({ length: 12 }, (_, id) => ({
    id,
    at: `2026-01-0${1 + (id % 3)}T23:59:59.999999Z`,
    name: `name${id}`,
    kind: id % 2 === 0 ? 'even' : null,
  }))
  await write(sink, rows.map(rec))
  const partitions = `select cast(partition.at_day as varchar), partition.id_bucket, partition.name_trunc, partition.kind, record_count from "days$partitions"`
  const ours = await trino.run(`${partitions} order by 1, 2, 3, 4`)
  const files = (await dataFiles('days')).length
  expect(files).toBe(ours.length)
  // Trino writes the same rows to the same partitions.
  await trino.run('insert into days select * from days')
  const doubled = await trino.run(`${partitions} order by 1, 2, 3, 4`)
  expect(doubled).toEqual(ours.map((row) => [...row.slice(0, -1), 2 * Number(row.at(-1))]))
  expect(await trino.run(`select count(*) from days where at < timestamp '2026-01-02 00:00:00 UTC' and kind is null`)).toEqual([[4]])
  const wrong = await open({ table: 'wrong', autoCreateTable: true, partitionBy: ['hour(id)'] })
  expect(await failure(write(wrong, [rec({ id: 1 })]))).toMatchObject({
    class: 'config',
    message: expect.stringContaining('partitionBy hour(id)'),
  })
})

test('a large batch is cut into files of the target size', { timeout }, async () => {
  const sink = await open({ table: 'sizes', autoCreateTable: true, targetFileBytes: '10Ki' })
  const rows = Array.from({ length: 300 }, (_, id) => rec({ id, text: 'x'.repeat(100) }))
  await write(sink, rows)
  expect((await dataFiles('sizes')).length).toBe(4)
  expect(await trino.run('select count(*), sum(id) from sizes')).toEqual([[300, (299 * 300) / 2]])
})

test('records that do not fit are named by their index, and nothing is written', { timeout }, async () => {
  await trino.run('create table strict (id bigint not null, u uuid, d decimal(4,2), t timestamp(6), i integer)')
  const sink = await open({ table: 'strict' })
  const before = await listObjects(place, 'strict')
  for (const [payload, message] of [
    ['{"id":"abc"}', 'the value of id is not a whole number'],
    ['{"id":9223372036854775808}', 'the value of id is outside the range of long'],
    ['{"u":null}', 'the value of id does not accept null'],
    ['{"id":1,"d":100.5}', 'the value of d does not fit decimal(4, 2)'],
    ['{"id":1,"d":1.234}', 'the value of d does not fit decimal(4, 2)'],
    ['{"id":1,"i":2147483648}', 'the value of i is outside the range of int'],
    ['{"id":1,"u":"no"}', 'the value of u is not a UUID'],
    ['{"id":1,"t":"soon"}', 'the value of t is not a time'],
    ['{"id":1,"x":2}', 'no column for the field x'],
    ['[1]', 'the payload is not an object'],
  ] as const)
    expect(await failure(write(sink, [rec({ id: 1 }), rec(payload)]))).toMatchObject({ class: 'record', recordIndex: 1, message })
  expect(await listObjects(place, 'strict')).toEqual(before)
  const config = sinkConfig('nessie', lakeConfig(place, { table: 'strict' }))
  expect(await nessieSink.check(config, sinkContext(), [rec({ id: 1 }), rec({ id: 'abc' })])).toEqual([
    undefined,
    { type: 'invalid_data', message: 'the value of id is not a whole number' },
  ])
})

test('dead letters become rows with their id, once each', { timeout }, async () => {
  const sink = await open({ table: 'letters', autoCreateTable: true }, { role: 'errors' })
  const letter = newMessage({
    json: { error: { message: 'no', flow: 'test/flow' }, original_message: { id: 9, big: 1 } },
    key: Buffer.from('letter-1'),
    metadata: {},
    position: 1,
    partition: 0,
  })
  await sink.write([letter], none)
  await sink.write([letter], none)
  const [row, ...others] = await trino.run('select id, error, original_message, created_at is not null, replayed_at from letters')
  expect(row).toEqual(['letter-1', '{"message":"no","flow":"test/flow"}', '{"id":9,"big":1}', true, null])
  expect(others).toEqual([])
})

test('failures have a clear class and text, and no text has a secret', { timeout }, async () => {
  await trino.run('create table faults (id bigint)')
  const proxy = await front()
  const [secretKey, token] = ['very-secret-key', 'very-secret-token']
  const texts: string[] = []
  const failed = async (config: object, decide?: Parameters<HttpFront['decide']>[0]): Promise<ConnectorError> => {
    proxy.decide(decide ?? (() => 'pass'))
    const given = { baseURL: proxy.url, table: 'faults', ...config }
    const sink = nessieSink.open(sinkConfig('nessie', lakeConfig(place, given)), sinkContext())
    onTestFinished(() => sink.close())
    const error = await failure(sink.connect().then(() => write(sink, [rec({ id: 1 })])))
    texts.push(error.message, String(error.stack), JSON.stringify(error))
    return error
  }
  expect(await failed({ table: 'absent' })).toMatchObject({
    class: 'config',
    message: `table ${place.namespace}.absent does not exist, and autoCreateTable is off`,
  })
  const answer =
    (status: number, body = '') =>
    () => ({ status, body, headers: { 'retry-after': '2' } })
  expect(
    await failed(
      { authenticationType: 'BEARER', bearerToken: token },
      answer(401, `{"error":{"type":"NotAuthorizedException","message":"expired"}}`),
    ),
  ).toMatchObject({ class: 'config', type: 'auth_error' })
  expect(await failed({}, answer(403))).toMatchObject({ class: 'config', type: 'auth_error' })
  expect(await failed({}, answer(500))).toMatchObject({ class: 'transient', retryAfterMs: 2000 })
  expect(await failed({}, answer(429))).toMatchObject({ class: 'transient', retryAfterMs: 2000 })
  expect(await failed({}, answer(200, '{"defaults":{'))).toMatchObject({ class: 'transient', message: expect.stringContaining('not JSON') })
  expect(await failed({}, () => 'lose')).toMatchObject({ class: 'transient', type: 'connection_error' })
  expect(await failed({ secretAccessKey: secretKey })).toMatchObject({
    class: 'config',
    type: 'auth_error',
    message: expect.stringContaining('SignatureDoesNotMatch'),
  })
  expect(await failed({ s3Endpoint: 'http://127.0.0.1:1' })).toMatchObject({ class: 'transient', type: 'connection_error' })
  expect(await failed({ s3Endpoint: 'http://169.254.169.254' })).toMatchObject({ class: 'config', type: 'connection_error' })
  expect(texts.join('\n')).not.toMatch(new RegExp(`${secretKey}|${token}|${place.s3.secretAccessKey}`))
  expect(await idsIn('faults')).toEqual([])
})

test('without keys the catalog signs the requests to the object store', { timeout }, async () => {
  const keyless = { table: 'signed', autoCreateTable: true, accessKey: undefined, secretAccessKey: undefined, s3Endpoint: undefined }
  const sink = await open(keyless)
  await write(sink, [rec({ id: 1 }), rec({ id: 2 })])
  expect(await idsIn('signed')).toEqual([1, 2])
})
