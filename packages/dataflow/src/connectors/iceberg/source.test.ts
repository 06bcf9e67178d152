// The Iceberg source on a real Nessie and a real S3 service, with tables that Trino writes: snapshots, restarts, deletes, lost history.
import { type NessieNamespace, nessieNamespace } from '@brokkr/testing/servers/nessie.ts'
import { type TrinoSchema, trinoOnNessie } from '@brokkr/testing/servers/trino.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import type { ConnectorError, Message, Position, Source, SourceContext } from '../connector.ts'
import { sourceConfig } from '../test-parts/configs.ts'
import { nothingSeen, readUntil, type Seen, sourceContext } from '../test-parts/contexts.ts'
import { lakeConfig } from '../test-parts/lake.ts'
import { nessieSource } from './index.ts'

const timeout = 240_000
let place: NessieNamespace
let trino: TrinoSchema
beforeAll(async () => {
  place = await nessieNamespace()
  trino = await trinoOnNessie(place)
}, 600_000)

async function open(config: object, context: Partial<SourceContext> = {}, seen: Seen = nothingSeen()): Promise<Source> {
  const given = sourceConfig('nessie', lakeConfig(place, config))
  const source = nessieSource.open(given, sourceContext({ isBounded: true, ...context }, seen))
  onTestFinished(() => source.close())
  await source.connect()
  return source
}
const everything = () => false
const texts = (messages: readonly Message[]) => messages.map(({ raw }) => Buffer.from(raw!).toString())
const ids = (messages: readonly Message[]) => texts(messages).map((text) => (JSON.parse(text) as { id: number }).id)
const commitTo = (source: Source, position: Position) => source.commit(new Map([['rows', position]]))

test('[D105] only rows of new snapshots are read, across restarts, also from the middle of a snapshot', { timeout }, async () => {
  await trino.run('create table events (id bigint)')
  await trino.run('insert into events select n from unnest(sequence(0, 9)) as t(n)')
  await trino.run('insert into events values (10)')
  const source = await open({ table: 'events' })
  const messages = await readUntil(source, everything)
  expect(ids(messages).toSorted((a, b) => a - b)).toEqual([...Array(11).keys()])
  expect(messages[0]!.metadata).toMatchObject({ table: 'events', operation: 'insert' })
  // Rows behind the committed one come again.
  await commitTo(source, messages[3]!.position)
  const middle = await open({ table: 'events' }, { stored: source.state() })
  expect(ids(await readUntil(middle, everything))).toEqual(ids(messages.slice(4)))
  await commitTo(source, messages.at(-1)!.position)
  expect(source.state()).toMatchObject({ lastAckedSnapshotSequence: 3, branch: 'main', table: 'events' })
  await trino.run('insert into events values (11)')
  await trino.run('insert into events values (12)')
  const later = await open({ table: 'events' }, { stored: source.state() })
  const added = await readUntil(later, everything)
  expect(ids(added)).toEqual([11, 12])
  expect(later.describe(new Map([['rows', added[0]!.position]]))).toMatch(/^snapshot \d+ file 0 row 0$/)
  // The first of two snapshots is complete.
  await commitTo(later, added[0]!.position)
  const last = await open({ table: 'events' }, { stored: later.state() })
  expect(ids(await readUntil(last, everything))).toEqual([12])
  expect(await last.lag()).toEqual({ messages: 1, seconds: expect.any(Number) })
  await commitTo(last, added[1]!.position)
  expect(await last.lag()).toEqual({ messages: 0, seconds: 0 })
  // In the same process reading goes on behind the rows that were read.
  expect(ids(await readUntil(last, everything))).toEqual([])
})

test('[D105] rows that a compaction rewrites are not read again, deleted rows are left out, and an overwrite is reported', {
  timeout,
}, async () => {
  await trino.run('create table changed (id bigint, name varchar)')
  for (const id of [1, 2, 3]) await trino.run(`insert into changed values (${id}, 'n')`)
  const source = await open({ table: 'changed' })
  const messages = await readUntil(source, everything)
  await commitTo(source, messages.at(-1)!.position)
  await trino.run('alter table changed execute optimize')
  await trino.run('insert into changed values (4, null), (5, null)')
  await trino.run(`update changed set name = 'new' where id = 4`)
  const seen = nothingSeen()
  const later = await open({ table: 'changed' }, { stored: source.state() }, seen)
  expect(texts(await readUntil(later, everything)).toSorted()).toEqual([
    '{"id":4,"name":"new"}',
    '{"id":4,"name":null}',
    '{"id":5,"name":null}',
  ])
  expect(seen.notices.join('\n')).toContain('RowsReplaced: snapshot')
  // The whole table has each row once: deletes are applied.
  const whole = await open({ table: 'changed', incrementalBySnapshot: false })
  expect(ids(await readUntil(whole, everything)).toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5])
  expect(ids(await readUntil(whole, everything)).length).toBe(5)
})

test('values of every type are exact', { timeout }, async () => {
  await trino.run(
    `create table exact as select cast(9007199254740993 as bigint) l, decimal '-1234567890123456789012345678.0123456789' de, cast(-1.5 as decimal(9,2)) d9, real '1.5' f, 0.1e0 d, true b, date '1969-12-31' da, timestamp '2026-01-02 03:04:05.000006' ts, timestamp '1969-12-31 23:59:59.999999 UTC' tz, time '01:02:03.000004' ti, uuid '12151fd2-7586-11e9-8f9e-2a86e4085a59' u, from_base64('aGk=') bin, 'ü 😀' s, array[bigint '9007199254740993', null] a, map(array['k'], array[decimal '1.10']) m, cast(row(1, null) as row(x bigint, y varchar)) r, cast(null as varchar) n`,
  )
  const [text] = texts(await readUntil(await open({ table: 'exact' }), everything))
  expect(text).toBe(
    '{"l":9007199254740993,"de":-1234567890123456789012345678.0123456789,"d9":-1.50,"f":1.5,"d":0.1,"b":true,"da":"1969-12-31","ts":"2026-01-02T03:04:05.000006","tz":"1969-12-31T23:59:59.999999Z","ti":"01:02:03.000004","u":"12151fd2-7586-11e9-8f9e-2a86e4085a59","bin":"aGk=","s":"ü 😀","a":[9007199254740993,null],"m":{"k":1.10},"r":{"x":1,"y":null},"n":null}',
  )
})

test('a snapshot that is no longer in the history is reported, and all rows are read again', { timeout }, async () => {
  await trino.run('create table expired (id bigint)')
  await trino.run('insert into expired values (1), (2)')
  const seen = nothingSeen()
  const stored = { lastAckedSnapshotID: '12345', lastAckedSnapshotSequence: 1 }
  const source = await open({ table: 'expired' }, { stored }, seen)
  expect(ids(await readUntil(source, everything)).toSorted((a, b) => a - b)).toEqual([1, 2])
  expect(seen.notices).toEqual([expect.stringMatching(/^HistoryLost: snapshot 12345, .* is no longer in the history of table .*expired/)])
  // A rewind names its snapshot, or what it cannot do.
  await source.rewind('latest')
  expect(ids(await readUntil(source, everything))).toEqual([])
  await source.rewind('start')
  expect(ids(await readUntil(source, everything)).length).toBe(2)
  await expect(source.rewind({ lsn: '0/1' })).rejects.toMatchObject({ class: 'config' })
})

test('a table that was created anew is reported until the flow is reset', { timeout }, async () => {
  await trino.run('create table anew (id bigint)')
  await trino.run('insert into anew values (1)')
  const first = await open({ table: 'anew' })
  const messages = await readUntil(first, everything)
  await commitTo(first, messages.at(-1)!.position)
  await trino.run('drop table anew')
  await trino.run('create table anew (id bigint)')
  await trino.run('insert into anew values (2)')
  const anew = { class: 'config', message: 'the table was created anew: reset the checkpoint of the flow' }
  await expect(readUntil(first, everything)).rejects.toMatchObject(anew)
  const source = await open({ table: 'anew' }, { stored: first.state() })
  await expect(readUntil(source, everything)).rejects.toMatchObject(anew)
  await source.rewind('start')
  expect(ids(await readUntil(source, everything))).toEqual([2])
})

test('startSnapshotID reads what came after it; a missing table is a clear error', { timeout }, async () => {
  await trino.run('create table started (id bigint)')
  await trino.run('insert into started values (1)')
  const first = await open({ table: 'started' })
  const [message] = await readUntil(first, everything)
  await trino.run('insert into started values (2)')
  const source = await open({ table: 'started', startSnapshotID: (message!.position as { s: string }).s })
  expect(ids(await readUntil(source, everything))).toEqual([2])
  const error = await open({ table: 'absent' }).catch((thrown: ConnectorError) => thrown)
  expect(error).toMatchObject({ class: 'config', message: `table ${place.namespace}.absent does not exist` })
  expect(await nessieSource.sample(sourceConfig('nessie', lakeConfig(place, { table: 'started' })), sourceContext(), 1)).toHaveLength(1)
})
