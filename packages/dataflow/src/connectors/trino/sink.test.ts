// The Trino sink on a real server: values of every type, overload, lost answers, expired tokens, and what it rejects.
import { type HttpFront, startHttpFront } from '@brokkr/testing/faults/http-front.ts'
import { type TrinoSchema, trinoSchema } from '@brokkr/testing/servers/trino.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { newMessage } from '../../message/message.ts'
import type { ConnectorError, Rec, Sink, SinkContext } from '../connector.ts'
import { sinkConfig } from '../test-parts/configs.ts'
import { sinkContext } from '../test-parts/contexts.ts'
import { trinoSink } from './index.ts'

const timeout = 180_000
let trino: TrinoSchema
beforeAll(async () => {
  trino = await trinoSchema()
}, 300_000)

let tables = 0
const newTable = async (columns: string): Promise<string> => {
  const name = `t${(tables += 1)}`
  await trino.run(`create table ${name} (${columns})`)
  return name
}

async function open(config: object, context: Partial<SinkContext> = {}): Promise<Sink> {
  const given = { serverURL: trino.url, catalog: trino.catalog, schema: trino.schema, ...config }
  const sink = trinoSink.open(sinkConfig('trino', given), sinkContext(context))
  onTestFinished(() => sink.close())
  await sink.connect()
  return sink
}
async function front(): Promise<HttpFront> {
  const started = await startHttpFront(trino.url)
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
const none = new Map()
const count = async (table: string): Promise<unknown> => (await trino.run(`select count(*) from ${table}`))[0]![0]
const failure = (work: Promise<unknown>): Promise<ConnectorError> =>
  work.then(
    () => Promise.reject(new Error('it did not fail')),
    (error: ConnectorError) => error,
  )
const isInsert = ({ method, body }: { method: string; body: string }): boolean => method === 'POST' && body.startsWith('INSERT')

test('[D102] rows of every type are read back equal', { timeout }, async () => {
  const table = await newTable(
    `b boolean, ti tinyint, si smallint, i integer, bi bigint, r real, d double, de decimal(38,10), v varchar, c char(3), vb varbinary, da date, ts timestamp(6), tz timestamp(6) with time zone, u uuid, a array(bigint), m map(varchar, double), ro row(x bigint, y varchar)`,
  )
  const sink = await open({ table })
  await sink.write(
    [
      rec(
        `{"b":true,"ti":-128,"si":32767,"i":-2147483648,"bi":9223372036854775807,"r":1.5,"d":0.1,"de":1234567890123456789012345678.0123456789,"v":"it's\\n\\u00fc \\ud83d\\ude00","c":"abc","vb":"aGk=","da":"2026-01-02","ts":"2026-01-16T13:55:03.123456+08:00","tz":"2026-01-16T13:55:03.123456789Z","u":"12151fd2-7586-11e9-8f9e-2a86e4085a59","a":[1,9007199254740993],"m":{"k":0.5},"ro":{"x":9007199254740993,"y":"q"}}`,
      ),
      rec({}),
    ],
    none,
  )
  const [[found], [nulls]] = [
    await trino.run(
      `select b, ti, si, i, cast(bi as varchar), r, d, de, v, c, to_base64(vb), cast(da as varchar), cast(ts as varchar), cast(tz as varchar), cast(u as varchar), cast(a[2] as varchar), m['k'], cast(ro.x as varchar), ro.y from ${table} where b`,
    ),
    await trino.run(`select count(*) from ${table} where b is null and ro is null and tz is null`),
  ]
  expect(found).toEqual([
    true,
    -128,
    32767,
    -2147483648,
    '9223372036854775807',
    1.5,
    0.1,
    '1234567890123456789012345678.0123456789',
    "it's\nü 😀",
    'abc',
    'aGk=',
    '2026-01-02',
    '2026-01-16 05:55:03.123456',
    '2026-01-16 13:55:03.123456 UTC',
    '12151fd2-7586-11e9-8f9e-2a86e4085a59',
    '9007199254740993',
    0.5,
    '9007199254740993',
    'q',
  ])
  expect(nulls).toEqual([1])
})

test('[D102] a value that does not convert is rejected by its index, and the preview says so', { timeout }, async () => {
  const table = await newTable('id bigint, u uuid')
  const sink = await open({ table })
  for (const [payload, message] of [
    ['{"id":"abc"}', 'the value of id is not a whole number'],
    ['{"id":1,"x":2}', 'no column for the field x'],
    ['[1]', 'the payload is not an object'],
  ] as const)
    expect(await failure(sink.write([rec({ id: 1 }), rec(payload)], none))).toMatchObject({ class: 'record', recordIndex: 1, message })
  expect(await count(table)).toBe(0)
  const config = sinkConfig('trino', { serverURL: trino.url, catalog: trino.catalog, schema: trino.schema, table })
  expect(await trinoSink.check(config, sinkContext(), [rec({ id: 1 }), rec({ id: 'abc' })])).toEqual([
    undefined,
    { type: 'invalid_data', message: 'the value of id is not a whole number' },
  ])
  expect(await count(table)).toBe(0)
})

test('tables and columns are created, raw mode stores texts, and a missing table is reported', { timeout }, async () => {
  expect(await failure(open({ table: 'absent' }))).toMatchObject({
    class: 'config',
    message: expect.stringContaining('absent does not exist'),
  })
  const sink = await open({ table: 'made', autoCreateTable: true })
  await sink.write(
    [rec('{"id":1,"n":1.5,"ok":true,"at":"2026-01-02T03:04:05.123456Z","big":123456789012345678901234567890,"o":{"a":1}}')],
    none,
  )
  expect(await trino.run('select id, n, ok, cast(at as varchar), big, o from made')).toEqual([
    [1, 1.5, true, '2026-01-02 03:04:05.123456 UTC', '123456789012345678901234567890', '{"a":1}'],
  ])
  const raw = await open({ table: 'raw', autoCreateTable: true, rawMode: true })
  await raw.write([rec({ id: 1, value: 5 })], none)
  expect(await trino.run('select data, _metadata from raw')).toEqual([['{"id":1,"value":5}', '{"topic":"a"}']])
})

test('fields with capital letters reach their columns', { timeout }, async () => {
  const sink = await open({ table: 'letters_of_names', autoCreateTable: true })
  await sink.write([rec({ userId: 1, name: 'a' })], none)
  const adding = await open({ table: 'letters_of_names', unknownFields: 'addColumn' })
  await adding.write([rec({ userId: 2, orderCount: 7 })], none)
  expect(await trino.run('select userid, name, ordercount from letters_of_names order by 1')).toEqual([
    [1, 'a', null],
    [2, null, 7],
  ])
  expect(await failure(sink.write([rec({ userId: 3, userid: 4 })], none))).toMatchObject({
    class: 'record',
    recordIndex: 0,
    message: expect.stringContaining('several fields belong to the column userid'),
  })
})

test('[D103] an overloaded server is waited for, and a busy cluster is retried', { timeout }, async () => {
  const table = await newTable('id bigint')
  const proxy = await front()
  const sink = await open({ table, serverURL: proxy.url })
  let refusals = 3
  proxy.decide(() => ((refusals -= 1) >= 0 ? { status: 503, headers: { 'retry-after': '0' } } : 'pass'))
  await sink.write([rec({ id: 1 })], none)
  expect([await count(table), refusals < 0]).toEqual([1, true])
  const busy = {
    id: 'q',
    error: { message: 'Too many requests failed', errorName: 'TOO_MANY_REQUESTS_FAILED', errorType: 'INTERNAL_ERROR' },
  }
  let isBusy = true
  proxy.decide((request) => {
    if (!isBusy || !isInsert(request)) return 'pass'
    isBusy = false
    return { status: 200, headers: { 'content-type': 'application/json' }, body: JSON.stringify(busy) }
  })
  const record = rec({ id: 2 })
  expect(await failure(sink.write([record], none))).toMatchObject({ class: 'transient' })
  await sink.write([record], none)
  expect(await count(table)).toBe(2)
})

test('[D103] a statement whose answers are lost is found again and not repeated', { timeout }, async () => {
  const table = await newTable('id bigint')
  const proxy = await front()
  const sink = await open({ table, serverURL: proxy.url })
  const record = rec({ id: 1 })
  // Answers to a few requests for pages are lost: the pages are requested again.
  let losses = 0
  proxy.decide(({ method }) => (method === 'GET' && (losses += 1) <= 3 ? 'lose' : 'pass'))
  await sink.write([record], none)
  expect([await count(table), losses > 3]).toEqual([1, true])
  // All of them are lost until the flush is given up: the statement goes on where the connection was lost.
  const later = rec({ id: 3 })
  proxy.decide(({ method }) => (method === 'GET' ? 'lose' : method === 'DELETE' ? { status: 503 } : 'pass'))
  expect(await failure(sink.write([later], none, AbortSignal.timeout(500)))).toMatchObject({ class: 'transient' })
  proxy.decide(() => 'pass')
  await sink.connect()
  await sink.write([later], none)
  expect(await count(table)).toBe(2)
  // An answer to the POST that is lost: the server has not started the statement.
  const second = rec({ id: 2 })
  proxy.decide((request) => (isInsert(request) ? 'lose' : 'pass'))
  expect(await failure(sink.write([second], none))).toMatchObject({ class: 'transient' })
  proxy.decide(() => 'pass')
  await sink.connect()
  await sink.write([second], none)
  expect(await count(table)).toBe(3)
})

test('[D103] a dead letter whose answer is lost is stored once', { timeout }, async () => {
  const table = `letters${(tables += 1)}`
  const proxy = await front()
  const sink = await open({ table, serverURL: proxy.url, autoCreateTable: true }, { role: 'errors' })
  const letterOf = (id: string) =>
    rec({ error: { id, flow: 'shop/orders', type: 'unknown', message: 'refused' }, original_message: { id: 1 } })
  // Reads the columns, so that the next write is only the statement.
  await sink.write([letterOf('a')], none)
  const letter = letterOf('b')
  proxy.decide(({ method }) => (method === 'GET' ? 'lose' : method === 'DELETE' ? { status: 503 } : 'pass'))
  expect(await failure(sink.write([letter], none, AbortSignal.timeout(500)))).toMatchObject({ class: 'transient' })
  proxy.decide(() => 'pass')
  await sink.connect()
  await sink.write([letter], none)
  expect(await count(table)).toBe(2)
})

test('[D103] a token that expires within a query is renewed, and no text shows it', { timeout }, async () => {
  const table = await newTable('id bigint')
  const proxy = await front()
  const secrets: string[] = []
  let issued = 0
  let uses = 0
  proxy.decide(({ path, headers, body }) => {
    if (path === '/token') {
      if (new URLSearchParams(body).get('client_secret') !== 'c-secret') return { status: 401 }
      issued += 1
      uses = 0
      return { status: 200, body: JSON.stringify({ access_token: `token-${issued}`, token_type: 'Bearer', expires_in: 3600 }) }
    }
    uses += 1
    // Each token is valid for two requests.
    return headers.authorization === `Bearer token-${issued}` && uses <= 2 ? 'pass' : { status: 401 }
  })
  const oauth2 = { tokenURL: `${proxy.url}/token`, clientID: 'c', clientSecret: 'c-secret' }
  const sink = await open({ table, serverURL: proxy.url, oauth2 }, { addSecret: (value) => void secrets.push(value) })
  await sink.write([rec({ id: 1 })], none)
  expect(await count(table)).toBe(1)
  expect(issued).toBeGreaterThan(2)
  expect(secrets).toContain(`token-${issued}`)
  const refused = await failure(open({ table, serverURL: proxy.url, oauth2: { ...oauth2, clientSecret: 'wrong' } }))
  expect(refused).toMatchObject({ class: 'config', type: 'auth_error' })
  expect(refused.message).not.toContain('wrong')
})

test('[D103] basic and bearer logins are sent, and a refused one is reported', { timeout }, async () => {
  const table = await newTable('id bigint')
  const proxy = await front()
  const seen = new Set<string | undefined>()
  proxy.decide(({ headers }) => {
    seen.add(headers.authorization)
    // Trino takes a password only over TLS, so the gateway keeps the login to itself.
    return headers.authorization === 'Bearer bad' ? { status: 401 } : { without: ['authorization'] }
  })
  await (await open({ table, serverURL: proxy.url, basicAuth: { username: 'u', password: 'p' } })).write([rec({ id: 1 })], none)
  await (await open({ table, serverURL: proxy.url, bearerToken: 'good' })).write([rec({ id: 2 })], none)
  expect([...seen]).toEqual([`Basic ${Buffer.from('u:p').toString('base64')}`, 'Bearer good'])
  expect(await failure(open({ table, serverURL: proxy.url, bearerToken: 'bad' }))).toMatchObject({ class: 'config', type: 'auth_error' })
})

test('a batch of several statements reports the records that are durable', { timeout }, async () => {
  const table = await newTable('id bigint, s varchar')
  const proxy = await front()
  const sink = await open({ table, serverURL: proxy.url })
  const records = Array.from({ length: 6 }, (_, id) => rec({ id, s: 'x'.repeat(400_000) }))
  let inserts = 0
  proxy.decide((request) => (isInsert(request) && (inserts += 1) === 2 ? { status: 400 } : 'pass'))
  const error = await failure(sink.write(records, none))
  expect([error.class, error.durableRecords]).toEqual(['config', 2])
  await sink.write(records.slice(2), none)
  expect(await trino.run(`select count(*), count(distinct id) from ${table}`)).toEqual([[6, 6]])
})
