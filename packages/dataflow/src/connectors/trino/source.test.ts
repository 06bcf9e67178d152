// The Trino source on a real server: pages, equal keys, exact values, restarts.
import { type TrinoSchema, trinoSchema } from '@brokkr/testing/servers/trino.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import type { Message, Source, SourceContext } from '../connector.ts'
import { sourceConfig } from '../test-parts/configs.ts'
import { readUntil, sourceContext } from '../test-parts/contexts.ts'
import { trinoSource } from './index.ts'

const timeout = 180_000
let trino: TrinoSchema
beforeAll(async () => {
  trino = await trinoSchema()
}, 300_000)

async function open(config: object, context: Partial<SourceContext> = {}): Promise<Source> {
  const given = { serverURL: trino.url, catalog: trino.catalog, schema: trino.schema, ...config }
  const source = trinoSource.open(sourceConfig('trino', given), sourceContext({ isBounded: true, ...context }))
  onTestFinished(() => source.close())
  await source.connect()
  return source
}
const texts = (messages: readonly Message[]) => messages.map(({ raw }) => Buffer.from(raw!).toString())
const ids = (messages: readonly Message[]) => texts(messages).map((text) => (JSON.parse(text) as { id: number }).id)
const everything = () => false

test('rows are read once and in order, across pages and restarts', { timeout }, async () => {
  await trino.run(
    `create table events as select cast(n as bigint) id, timestamp '2026-01-02 03:04:05.000006 UTC' + (n / 100) * interval '1' second updated_at from unnest(sequence(0, 299)) as t(n)`,
  )
  const source = await open({ table: 'events', readBatchSize: 128 })
  const messages = await readUntil(source, everything)
  expect(ids(messages)).toEqual(Array.from({ length: 300 }, (_, id) => id))
  expect(messages[0]!.position).toEqual({ c: '2026-01-02T03:04:05.000006Z', o: '0', n: 0 })
  await source.commit(new Map([['rows', messages[149]!.position]]))
  const again = await open({ table: 'events' }, { stored: source.state() })
  expect(ids(await readUntil(again, everything))).toEqual(Array.from({ length: 150 }, (_, at) => 150 + at))
  expect((await source.lag()).seconds).toBeGreaterThan(0)
})

test('values are exact, nulls come first, and a query is wrapped', { timeout }, async () => {
  await trino.run(
    `create table kinds as select 1 id, cast(9007199254740993 as bigint) b, decimal '12345678901234567890.0123456789' d, timestamp '2026-01-02 03:04:05.123456' ts, timestamp '2026-01-02 05:04:05.000 Europe/Berlin' updated_at, array[cast(9007199254740993 as bigint)] a, cast(row(1, 'x') as row(p bigint, q varchar)) r, 'é' s
     union all select 2, null, null, null, null, null, null, null`,
  )
  const source = await open({ query: 'select * from kinds where id < 10;' })
  const messages = await readUntil(source, everything)
  expect(texts(messages)).toEqual([
    '{"id":2,"b":null,"d":null,"ts":null,"updated_at":null,"a":null,"r":null,"s":null}',
    '{"id":1,"b":9007199254740993,"d":12345678901234567890.0123456789,"ts":"2026-01-02T03:04:05.123456","updated_at":"2026-01-02T04:04:05.000Z","a":[9007199254740993],"r":{"p":1,"q":"x"},"s":"é"}',
  ])
})

test('a missing table, a missing column and a server that is away are reported by class', { timeout }, async () => {
  const failure = (work: Promise<unknown>) =>
    work.then(
      () => undefined,
      (error: unknown) => error,
    )
  expect(await failure(open({ table: 'absent' }))).toMatchObject({ class: 'config' })
  await trino.run('create table plain as select 1 id')
  expect(await failure(open({ table: 'plain' }))).toMatchObject({ message: expect.stringContaining('updated_at does not exist') })
  expect(await failure(open({ table: 'plain', serverURL: 'http://127.0.0.1:1' }))).toMatchObject({ class: 'transient' })
})
