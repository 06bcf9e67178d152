// A revision is its own row of the feed: what reads the log must find it there, by both probes, in pages, and only while it is news.
import { randomUUID } from 'node:crypto'
import { type Database, openDatabase } from '@brokkr/postgres'
import { database } from '@brokkr/testing/servers/postgres.ts'
import type pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { parseSnapshot, toSnapshotProbes } from '../reader/cursor.ts'
import * as changeLog from './change-log.ts'

let sql: Database
let client: pg.Client
const [generator, stack] = [randomUUID(), randomUUID()]
beforeAll(async () => {
  const at = await database()
  sql = openDatabase({ url: at.url, schema: 'public', poolSize: 2 })
  client = await at.connect()
  await client.query(`insert into generators (id, name) values ('${generator}', 'g')`)
  await client.query(`insert into stacks (id, name, generator_id) values ('${stack}', 's', '${generator}')`)
  return async () => {
    await client.end()
    await sql.close()
  }
})

const submitText = `with taken as (
    update stacks set last_sequence = last_sequence + 1, sequence_xid = pg_current_xact_id(), head_object_id = $1 where id = '${stack}' returning *)
  insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind)
  select head_object_id, id, last_sequence, '', 0, '', 'admin' from taken`
async function submit(): Promise<string> {
  const id = randomUUID()
  await client.query(submitText, [id])
  return id
}
const now = async () => parseSnapshot((await changeLog.poll(sql, { xmax: String(2n ** 63n - 1n), in_flight: [] }))[0]!.cursor!)
const since = async (cursor: Awaited<ReturnType<typeof now>>) => (await changeLog.poll(sql, toSnapshotProbes(cursor))).slice(1)
/** Of revisions alone, and later each time it is asked for. */
const isAge = (age: unknown) => age === null || typeof age === 'number'
const revision = (id: string) => ({ scope_kind: 'stack', scope_id: stack, object_kind: 'deployment_object', object_id: id, op: 'insert' })

test('[S1] a deployment object is reported to cursors taken before its commit, and to no others', async () => {
  const before = await now()
  await client.query('begin')
  const id = await submit()
  // Somebody begins later and ends earlier: only then is ours one of those in flight.
  await sql.query({ name: 'later', text: 'select pg_current_xact_id()', values: [] })
  const during = await now()
  expect(await since(before)).toEqual([])
  await client.query('commit')
  const after = await now()
  expect(await since(before)).toMatchObject([revision(id)])
  const [row] = await since(during)
  expect(during.inFlight).toContain(BigInt(row!.xid!))
  expect(row).toMatchObject(revision(id))
  expect(row!.age_seconds).toBeGreaterThan(0)
  expect(await since(after)).toEqual([])
})

test('[S34] a restored deployment object with a future transaction id is not reported', async () => {
  const before = await now()
  await client.query(`set session_replication_role = replica`)
  await client.query(
    `insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind, xid)
     values (gen_random_uuid(), '${stack}', 1000, '', 0, '', 'admin', ((pg_current_xact_id()::text::bigint + 1000000)::text)::xid8)`,
  )
  await client.query(`set session_replication_role = origin`)
  const id = await submit()
  expect(await since(before)).toMatchObject([revision(id)])
  const read = await changeLog.page(sql, { ...toSnapshotProbes(before), ...changeLog.beforeFirst })
  expect(read.slice(1)).toMatchObject([revision(id)])
})

test('a page starts after the last row of the previous page, from the log or a deployment object', async () => {
  const before = await now()
  await client.query('begin')
  await client.query(`update stacks set description = 'two rows of the log' where id = '${stack}'`)
  const ids = [await submit(), await submit(), await submit()].toSorted()
  await client.query('commit')
  const rows = (await changeLog.page(sql, { ...toSnapshotProbes(before), ...changeLog.beforeFirst })).slice(1)
  expect(rows.map(({ object_kind }) => object_kind)).toEqual(['stack', 'stack', ...ids.map(() => 'deployment_object')])
  expect(rows.slice(2).map(({ object_id }) => object_id)).toEqual(ids)
  for (const [at, { seq, xid, object_id }] of rows.entries()) {
    const behind = await changeLog.page(sql, { ...toSnapshotProbes(before), ...changeLog.pageEnd({ seq, xid: BigInt(xid!), object_id }) })
    expect(behind.slice(1)).toMatchObject(rows.slice(at + 1).map((row) => ({ ...row, age_seconds: expect.toSatisfy(isAge) })))
  }
})
