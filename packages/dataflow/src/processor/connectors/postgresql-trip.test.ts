import { emptyDatabase } from '@brokkr/testing/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import type pg from 'pg'
import { expect, onTestFinished, test } from 'vitest'
import { Trip } from './postgresql-trip.ts'
import { textArray } from './text-array.ts'

async function connected(): Promise<{ client: pg.Client; admin: pg.Client; other: pg.Client }> {
  const database = await emptyDatabase()
  const [client, admin, other] = await Promise.all([database.connect(), database.connect(), database.connect()])
  onTestFinished(async () => {
    await Promise.all([client.end(), admin.end(), other.end()])
  })
  await admin.query('create table t (id int primary key, name text)')
  return { client, admin, other }
}
const insert = (ids: readonly string[], names: readonly (string | null)[]) => ({
  text: 'insert into t select i::int, n from unnest($1::text[], $2::text[]) as u(i, n) on conflict do nothing',
  values: [textArray(ids), textArray(names)],
})
const rows = async (client: pg.Client): Promise<unknown[]> => (await client.query('select * from t order by id')).rows

test('statements of one trip are committed together, each with its count of rows', async () => {
  const { client, admin } = await connected()
  const trip = new Trip([
    insert(['1', '2'], ['å', null]),
    insert(['2', '3'], ['', 'c']),
    { text: 'delete from t where name = $1', values: ['c'] },
  ])
  await trip.run(client)
  expect(trip.counts).toEqual([2, 1, 1])
  expect(await rows(admin)).toEqual([
    { id: 1, name: 'å' },
    { id: 2, name: null },
  ])
})

test('a statement that is refused takes back those before it, and the connection goes on', async () => {
  const { client, admin } = await connected()
  const trip = new Trip([insert(['1'], ['a']), insert(['no number'], ['b']), insert(['3'], ['c'])])
  await expect(trip.run(client)).rejects.toMatchObject({ code: '22P02' })
  expect(trip.counts).toEqual([1])
  expect(await rows(admin)).toEqual([])
  await new Trip([insert(['4'], ['d'])]).run(client)
  expect(await rows(client)).toEqual([{ id: 4, name: 'd' }])
})

test('a constraint that is looked at last takes all of them back', async () => {
  const { client, admin } = await connected()
  await admin.query('create table u (id int references t deferrable initially deferred)')
  const trip = new Trip([insert(['1'], ['a']), { text: 'insert into u values ($1)', values: ['7'] }])
  await expect(trip.run(client)).rejects.toMatchObject({ code: '23503' })
  expect(await rows(admin)).toEqual([])
})

test('that all bytes have left is told while the server still works on them; a session that ends is told to who waits', async () => {
  const { client, admin, other } = await connected()
  await other.query('select pg_advisory_lock(7)')
  const text = 'x'.repeat(1 << 20)
  // It waits once it is executed, so not before all of it is there.
  const { text: inserting, values } = insert(['1', '2', '3'], [text, text, text])
  const trip = new Trip([{ text: inserting.replace('on conflict', 'where pg_advisory_xact_lock(7) is not null on conflict'), values }])
  const running = trip.run(client).catch((error: unknown) => error)
  await trip.sent
  const waiting = `select pid from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`
  await waitFor('the insert to wait for the lock', async () => (await admin.query(waiting)).rows.length === 1)
  await admin.query(`select pg_terminate_backend(pid) from (${waiting}) w`)
  expect(await running).toMatchObject({ code: '57P01' })
  await other.query('select pg_advisory_unlock(7)')
  expect(await rows(admin)).toEqual([])
  const late = new Trip([insert(['4'], ['d'])])
  await expect(late.run(client)).rejects.toThrow(/not queryable|terminated/)
  await late.sent
})
