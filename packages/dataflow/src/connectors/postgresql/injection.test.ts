// Text of strangers is data: whatever a payload holds, as a value, as a key of an object or as a name in the metadata, comes into the
// table word for word or is refused as the record's own fault, and no other table is touched.
import type { Metadata } from '@brokkr/contract/dataflow/language/json.ts'
import { emptyDatabase, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import type pg from 'pg'
import { afterEach, beforeEach, expect, onTestFinished, test } from 'vitest'
import { newMessage } from '../../message/message.ts'
import type { Rec, Sink } from '../connector.ts'
import { sinkConfig } from '../test-parts/configs.ts'
import { sinkContext } from '../test-parts/contexts.ts'
import { postgresqlSink } from './index.ts'

const hostile = [
  `';drop table canary;--`,
  `"; drop table canary; --`,
  `") ; drop schema public cascade; --`,
  `' or '1'='1`,
  `\\'; drop table canary; --`,
  `\\"}'; drop table canary; --`,
  `{"a","b"}`,
  `{NULL}`,
  `\\N`,
  `\\.`,
  `a\tb\nc\r\\`,
  `$1`,
  `$$;drop table canary;$$`,
  `1::regclass`,
  `u."id"::text`,
  `*/ union select null --`,
  `%s`,
  `NULL`,
  `canary" rename to "gone`,
  `\u2019; drop table canary`,
]

let database: TestDatabase
let admin: pg.Client
beforeEach(async () => {
  database = await emptyDatabase()
  admin = await database.connect()
  await admin.query('create table canary (id int); insert into canary values (1)')
})
afterEach(async () => {
  expect((await admin.query('select id from canary')).rows).toEqual([{ id: 1 }])
  const { rows } = await admin.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'r' order by 1`,
  )
  expect(rows.map(({ name }) => name)).toEqual(['brokkr_positions', 'canary', 't'])
  await admin.end()
})

async function open(config: object): Promise<Sink> {
  const sink = postgresqlSink.open(sinkConfig('postgresql', { connectionString: database.url, table: 't', ...config }), sinkContext())
  onTestFinished(() => sink.close())
  await sink.connect()
  return sink
}
const rec = (json: object, metadata: Metadata = {}): Rec =>
  newMessage({ raw: Buffer.from(JSON.stringify(json)), metadata, position: 1, partition: 0 })
const write = (sink: Sink, records: readonly Rec[]) => sink.write(records, new Map([[0, 1]]))

test.each([
  ['by COPY', {}, 10],
  ['by unnest', {}, 1],
  ['by upsert', { upsertMode: true }, 1],
  ['by upsert through a stage', { upsertMode: true }, 250],
])('[X26] hostile text is stored unchanged, %s; as the key of a delete it removes its row', async (_how, config, times) => {
  await admin.query('create table t (id text primary key, a text, j jsonb, l text[])')
  const records = hostile.flatMap((text, at) =>
    Array.from({ length: times }, (_, copy) => rec({ id: `${at}:${copy}:${text}`, a: text, j: { [text]: text }, l: [text] })),
  )
  await write(await open(config), records)
  const { rows } = await admin.query<{ id: string; a: string; j: object; l: string[] }>('select id, a, j, l from t')
  const found = new Map(rows.map((row) => [row.id, row]))
  for (const [at, text] of hostile.entries()) {
    const id = `${at}:0:${text}`
    expect(found.get(id)).toEqual({ id, a: text, j: { [text]: text }, l: [text] })
  }
  expect(found.size).toBe(hostile.length * times)
  const gone = hostile.map((text, at) => rec({ id: `${at}:0:${text}` }, { operation: 'delete' }))
  await write(await open({ upsertMode: true }), gone)
  expect((await admin.query('select count(*)::int as n from t')).rows).toEqual([{ n: hostile.length * (times - 1) }])
})

test.each([
  ['a table that is made', { autoCreateTable: true }, false],
  ['columns that are added', { unknownFields: 'addColumn' }, true],
] as const)('[X26] as a name of %s each is a name and nothing else', async (_what, config, isThere) => {
  if (isThere) await admin.query('create table t (id int)')
  await write(await open(config), [rec({ id: 1, ...Object.fromEntries(hostile.map((text, at) => [text, String(at)])) })])
  const { rows } = await admin.query<Record<string, string>>('select * from t')
  for (const [at, text] of hostile.entries()) expect([text, rows[0]![text]]).toEqual([text, String(at)])
})

test('[X26] as a name in the metadata of raw mode each is a name and nothing else', async () => {
  const raw = { autoCreateTable: true, rawMode: true, flattenMetadataColumns: true }
  await write(await open(raw), [rec({ a: 1 }, Object.fromEntries(hostile.map((text, at) => [text, String(at)])))])
  const { rows } = await admin.query<Record<string, string>>('select * from t')
  for (const [at, text] of hostile.entries()) expect([text, rows[0]![text]]).toEqual([text, String(at)])
})

test.each([
  ['blank', ''],
  ['with a NUL', 'a\u0000b'],
  ['longer than the server keeps', 'x'.repeat(64)],
])('[X26] a name that is no column name is the fault of its record alone: %s', async (_what, name) => {
  await admin.query('create table t (id int)')
  const sink = await open({ unknownFields: 'addColumn' })
  await expect(write(sink, [rec({ id: 1 }), rec({ id: 2, [name]: 1 })])).rejects.toMatchObject({ class: 'record', recordIndex: 1 })
  await write(sink, [rec({ id: 1 })])
  expect((await admin.query('select * from t')).rows).toEqual([{ id: 1 }])
  await admin.query('drop table t')
  const making = await open({ autoCreateTable: true })
  await expect(write(making, [rec({ id: 2, [name]: 1 })])).rejects.toMatchObject({ class: 'record', recordIndex: 0 })
  await write(making, [rec({ id: 1 })])
})

test('[X26] a NUL in a value is the fault of its record alone', async () => {
  await admin.query('create table t (id int, a text, j jsonb)')
  for (const bad of [{ a: 'x\u0000y' }, { j: { 'k\u0000': 1 } }]) {
    await expect(write(await open({}), [rec({ id: 1, ...bad })])).rejects.toMatchObject({ class: 'record' })
    const many = Array.from({ length: 300 }, (_, id) => rec(id === 123 ? { id, ...bad } : { id, a: '', j: {} }))
    await expect(write(await open({}), many)).rejects.toMatchObject({ class: 'record' })
  }
})
