// Tables that the Iceberg sink writes, read by pyiceberg: equal rows and types, also through filters that use the bounds of files.
import { type NessieNamespace, nessieNamespace } from '@brokkr/testing/servers/nessie.ts'
import { readByPyiceberg } from '@brokkr/testing/servers/pyiceberg.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { newMessage } from '../../message/message.ts'
import type { Rec } from '../connector.ts'
import { sinkConfig } from '../test-parts/configs.ts'
import { sinkContext } from '../test-parts/contexts.ts'
import { lakeConfig } from '../test-parts/lake.ts'
import { nessieSink } from './index.ts'

const timeout = 600_000
let place: NessieNamespace
beforeAll(async () => {
  place = await nessieNamespace()
}, timeout)

let position = 0
const rec = (text: string): Rec => newMessage({ raw: Buffer.from(text), metadata: {}, position: (position += 1), partition: 0 })
async function write(config: object, ...batches: readonly string[][]): Promise<void> {
  const sink = nessieSink.open(sinkConfig('nessie', lakeConfig(place, { autoCreateTable: true, ...config })), sinkContext())
  onTestFinished(() => sink.close())
  await sink.connect()
  await sink.highWater([0])
  for (const batch of batches) await sink.write(batch.map(rec), new Map([[0, position]]))
}

test('[D104] pyiceberg reads the rows and types of a created table, and finds rows by their bounds', { timeout }, async () => {
  await write({ table: 'created' }, [
    '{"id":9007199254740993,"x":0.5,"ok":true,"at":"1969-12-31T23:59:59.999999Z","big":123456789012345678901234567890,"text":"ü 😀"}',
    '{"id":-2,"x":2,"big":1,"none":null}',
  ])
  const { types, rows } = await readByPyiceberg(place, 'created')
  expect(types).toEqual({ id: 'long', x: 'double', ok: 'boolean', at: 'timestamptz', big: 'string', text: 'string', none: 'string' })
  expect(rows).toEqual([
    {
      id: '9007199254740993',
      x: 0.5,
      ok: true,
      at: '1969-12-31T23:59:59.999999+00:00',
      big: '123456789012345678901234567890',
      text: 'ü 😀',
      none: null,
    },
    { id: '-2', x: 2, ok: null, at: null, big: '1', text: null, none: null },
  ])
  expect((await readByPyiceberg(place, 'created', 'id > 9007199254740992')).rows).toHaveLength(1)
  expect((await readByPyiceberg(place, 'created', "text = 'ü 😀'")).rows).toHaveLength(1)
})

test('[D105] pyiceberg reads partitions, added columns and several snapshots', { timeout }, async () => {
  const row = (id: number, more = '') => `{"id":${id},"day":"2026-01-0${1 + (id % 2)}T00:00:00Z","name":"name${id}"${more}}`
  const first = Array.from({ length: 10 }, (_, id) => row(id))
  await write({ table: 'parts', unknownFields: 'addColumn', partitionBy: ['day(day)', 'bucket(4, id)', 'truncate(2, name)'] }, first, [
    row(10, ',"added":9007199254740993'),
  ])
  const { types, rows } = await readByPyiceberg(place, 'parts')
  expect(types).toEqual({ id: 'long', day: 'timestamptz', name: 'string', added: 'long' })
  expect(rows.map(({ id }) => Number(id)).toSorted((a, b) => a - b)).toEqual([...Array(11).keys()])
  expect(rows.find(({ id }) => id === '10')).toMatchObject({ added: '9007199254740993' })
  // Partition values of hidden partitions are compared with those of the filter.
  for (const id of [0, 3, 7, 10]) expect((await readByPyiceberg(place, 'parts', `id = ${id}`)).rows, `id ${id}`).toHaveLength(1)
  expect((await readByPyiceberg(place, 'parts', `day >= '2026-01-02T00:00:00+00:00'`)).rows).toHaveLength(5)
})
