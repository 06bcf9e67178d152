// Texts against a real database: read and opened twice, then kept within bounds of memory and time, and what cannot be opened is never kept.
import { randomBytes, randomUUID } from 'node:crypto'
import { type NamedStatement, openDatabase, type Sql } from '@brokkr/postgres'
import { manualClock } from '@brokkr/testing/clock.ts'
import { database } from '@brokkr/testing/servers/postgres.ts'
import { expect, test } from 'vitest'
import { createSeal } from '../seal.ts'
import { createManifestCache, type ManifestCache } from './manifest-cache.ts'
import { toManifestContext } from './rules/stored-manifest.ts'

const db = await database()
const sql = openDatabase({ url: db.url, schema: 'public', poolSize: 2 })
const client = await db.connect()
await client.query('set session_replication_role = replica')
const seal = createSeal([randomBytes(32)])

/** The database, and what was asked of it. */
function watched(): { sql: Sql; asked: string[][] } {
  const asked: string[][] = []
  const query = (named: NamedStatement) => {
    asked.push(named.values[0] as string[])
    return sql.query(named)
  }
  return { sql: { query, begin: (work) => sql.begin(work) }, asked }
}

async function submitted(text: string, sealedBy = seal): Promise<string> {
  const id = randomUUID()
  await client.query(
    `insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind)
     values ($1, $2, 1, $3, $4, '', 'admin')`,
    [id, randomUUID(), sealedBy.seal(toManifestContext(id), text), text.length],
  )
  return id
}

/** As two agents do. */
async function askTwice(texts: ManifestCache, asking: Sql, id: string): Promise<void> {
  for (let times = 0; times < 2; times += 1) await texts.load(asking, [id])
}

test('a manifest is loaded until it was read twice, and a missing one is omitted', async () => {
  const { sql: asking, asked } = watched()
  const texts = createManifestCache({ seal, clock: manualClock() })
  const [first, second, gone] = [await submitted('a: 1'), await submitted('a: "ü"'), randomUUID()]
  expect(await texts.load(asking, [first])).toEqual(new Map([[first, 'a: 1']]))
  const both = new Map([
    [first, 'a: 1'],
    [second, 'a: "ü"'],
  ])
  expect(await texts.load(asking, [first, second, gone])).toEqual(both)
  expect(await texts.load(asking, [second, first])).toEqual(both)
  expect(await texts.load(asking, [second, first])).toEqual(both)
  expect(asked).toEqual([[first], [first, second, gone], [second]])
})

/** Ids of one slot overwrite each other, so each id has a slot of its own. */
async function submitToSeparateSlots(): Promise<string[]> {
  const idBySlot = new Map<number, string>()
  while (idBySlot.size < 50) {
    const id = await submitted('a: 1')
    idBySlot.set(Number.parseInt(id.slice(-8), 16) & 0x7f_ff, id)
  }
  return [...idBySlot.values()]
}

test('a manifest that was read once is not cached', async () => {
  const { sql: asking, asked } = watched()
  const texts = createManifestCache({ seal, clock: manualClock() })
  const ids = await submitToSeparateSlots()
  for (const id of ids) await texts.load(asking, [id])
  expect(ids.map((id) => texts.json(id))).toEqual(ids.map(() => null))
  asked.length = 0
  for (const id of ids) await texts.load(asking, [id])
  expect(asked).toEqual(ids.map((id) => [id]))
})

test('a manifest that was read twice is cached', async () => {
  const { sql: asking, asked } = watched()
  const texts = createManifestCache({ seal, clock: manualClock() })
  const ids = await submitToSeparateSlots()
  for (const id of ids) for (let times = 0; times < 2; times += 1) await texts.load(asking, [id])
  asked.length = 0
  for (const id of ids) await texts.load(asking, [id])
  expect(asked).toEqual([])
})

test('a manifest that no key decrypts is null until its key is configured', async () => {
  const other = createSeal([randomBytes(32)])
  const id = await submitted('a: 1', other)
  const texts = createManifestCache({ seal, clock: manualClock() })
  expect(await texts.load(sql, [id])).toEqual(new Map([[id, null]]))
  expect(() => texts.open(id, Buffer.from('short'))).toThrow('cannot be opened')
  await client.query('update deployment_objects set yaml_sealed = $2 where id = $1', [id, seal.seal(toManifestContext(id), 'a: 1')])
  expect(await texts.load(sql, [id])).toEqual(new Map([[id, 'a: 1']]))
})

test('the manifest cache is bounded, evicts the least recently read and skips large manifests', async () => {
  const { sql: asking, asked } = watched()
  const texts = createManifestCache({ seal, clock: manualClock() })
  const ids: string[] = []
  for (let at = 0; at < 140; at += 1) ids.push(await submitted('x'.repeat(120 << 10)))
  for (const id of ids) await askTwice(texts, asking, id)
  asked.length = 0
  await texts.load(asking, [ids.at(-1)!])
  expect(asked).toEqual([])
  await texts.load(asking, [ids[0]!])
  expect(asked).toEqual([[ids[0]]])
  // What lies beyond ASCII takes two bytes for each character, also for those within.
  for (const large of [await submitted('x'.repeat(129 << 10)), await submitted(`ш${'x'.repeat(65 << 10)}`)]) {
    asked.length = 0
    for (let times = 0; times < 3; times += 1) await texts.load(asking, [large])
    expect(asked).toEqual([[large], [large], [large]])
  }
})

test('a rewritten manifest is cached and counted', async () => {
  const texts = createManifestCache({ seal, clock: manualClock() })
  const text = 'a: "ü"\n'
  const id = await submitted(text)
  expect(texts.json(id)).toBeNull()
  await askTwice(texts, sql, id)
  expect([texts.json(id), texts.json(id)?.toString(), texts.json(id)]).toEqual([null, JSON.stringify(text), texts.json(id)])
  expect(await texts.load(sql, [id])).toEqual(new Map([[id, text]]))
  // Of quotes alone the JSON is twice as long: 54 of these fit, where 163 texts would without it.
  const quotes = '"'.repeat(100 << 10)
  const ids: string[] = []
  for (let at = 0; at < 60; at += 1) ids.push(await submitted(quotes))
  for (const each of ids) {
    await askTwice(texts, sql, each)
    for (let times = 0; times < 2; times += 1) texts.json(each)
  }
  expect(ids.map((each) => texts.json(each) !== null).indexOf(true)).toBe(60 - 54)
  texts.forget()
  expect(texts.json(ids.at(-1)!)).toBeNull()
})

test('a cached manifest expires after five minutes', async () => {
  const { sql: asking, asked } = watched()
  const clock = manualClock()
  const texts = createManifestCache({ seal, clock })
  const [first, second] = [await submitted('a: 1'), await submitted('a: 2')]
  await askTwice(texts, asking, first)
  await texts.load(asking, [second])
  await clock.advance(4 * 60_000)
  asked.length = 0
  await texts.load(asking, [first, second])
  expect(asked).toEqual([[second]])
  await clock.advance(60_000)
  expect(clock.waiting).toBe(0)
  asked.length = 0
  await texts.load(asking, [first, second])
  expect(asked).toEqual([[first, second]])
  texts.forget()
  expect(clock.waiting).toBe(0)
  await texts.load(asking, [second])
  expect(asked).toEqual([[first, second], [second]])
})
