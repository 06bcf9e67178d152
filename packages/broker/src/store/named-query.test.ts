import { emptyDatabase, type TestDatabase } from '@brokkr/testing/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterEach, beforeAll, expect, test } from 'vitest'
import { type Database, openDatabase } from './db.ts'
import { oneTripOn } from './one-trip.ts'

let db: TestDatabase
const opened: Database[] = []
beforeAll(async () => {
  db = await emptyDatabase()
})
afterEach(() => Promise.all(opened.splice(0).map((database) => database.close())))

const open = (applicationName = 'brokkr'): Database => {
  const database = openDatabase({ url: db.url, schema: 'public', poolSize: 4, applicationName })
  opened.push(database)
  return database
}
const divide = (sql: Database, by: unknown) => sql.query({ name: 'divide', text: 'select 12 / $1::int as n', values: [by], shares: true })
const endOf = (result: ReturnType<typeof divide>): Promise<unknown> =>
  result.then(
    ({ rows }) => (rows[0] as { n: number }).n,
    (error: { code?: string }) => error.code ?? 'gone',
  )

test('values come back as they went, the first time and the second', async () => {
  const sql = open()
  const text =
    'select $1::text as t, $2::bytea as b, $3::text[] as l, $4::jsonb as j, $5::int8 as i, $6::boolean as y, $7::timestamptz as at'
  const row = { t: 'grün €\n', b: Buffer.from([0, 255]), l: ['a"b', null, ''], j: { a: [1] }, i: 9007199254740991, y: false }
  const values = [...Object.values(row), '2026-01-02 03:04:05.1+00']
  for (const _ of ['first', 'second'])
    expect((await sql.query({ name: 'echo', text, values })).rows).toEqual([{ ...row, at: '2026-01-02T03:04:05.100000Z' }])
  const none = await sql.query({ name: 'echo', text, values: values.map(() => null) })
  expect(none.rows).toEqual([{ t: null, b: null, l: null, j: null, i: null, y: null, at: null }])
})

test('an integer that no JSON number holds exactly is an error, not another number', async () => {
  const query = open().query({ name: 'large', text: 'select 9007199254740993::int8 as n', values: [] })
  await expect(query).rejects.toThrow('9007199254740993 does not fit')
})

test('how many rows were changed is told, with and without rows', async () => {
  const sql = open()
  const run = (name: string, text: string) => sql.query({ name, text, values: [] })
  await run('make', 'create table counted (n int)')
  expect((await run('add', 'insert into counted select generate_series(1, 3)')).rowCount).toBe(3)
  for (const _ of ['first', 'second']) expect((await run('change', 'update counted set n = n + 1')).rowCount).toBe(3)
  expect(await run('none', 'update counted set n = 0 where false returning n')).toEqual({ rows: [], rowCount: 0 })
})

test('look-ups of one turn share a connection, and one that fails takes nobody with it', async () => {
  const sql = open()
  await divide(sql, 1)
  const ends = await Promise.all([1, 2, 0, 3, 'x', 4].map((by) => endOf(divide(sql, by))))
  expect(ends).toEqual([12, 6, '22012', 4, '22P02', 3])
  expect(sql.pool.total).toBe(1)
})

test('more of them than may wait for each other take another connection', async () => {
  const sql = open()
  const ends = await Promise.all(Array.from({ length: 20 }, () => endOf(divide(sql, 3))))
  expect(ends).toEqual(Array(20).fill(4))
  expect(sql.pool.total).toBe(3)
})

test('a statement that cannot be prepared fails by itself', async () => {
  const sql = open()
  const broken = sql.query({ name: 'broken', text: 'select nothing_of_that_name', values: [], shares: true })
  expect(await Promise.all([endOf(broken), endOf(divide(sql, 6)), endOf(broken)])).toEqual(['42703', 2, '42703'])
})

test('when their connection breaks, each of them is told, and the next has a new one', async () => {
  const sql = open('breaking')
  const wait = () => sql.query({ name: 'wait', text: 'select pg_advisory_lock_shared(7)::text as n', values: [], shares: true })
  await wait()
  const holder = await db.connect()
  await sql.query({ name: 'unlock', text: 'select pg_advisory_unlock_all()::text', values: [] })
  await holder.query('select pg_advisory_lock(7)')
  const ends = Promise.all([wait(), wait(), wait()].map(endOf))
  const waits = `select from pg_stat_activity where application_name = 'breaking' and wait_event_type = 'Lock'`
  await waitFor('the first of them waits', async () => (await holder.query(waits)).rowCount === 1)
  await holder.query(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'breaking'`)
  expect(await ends).toEqual(['57P01', 'gone', 'gone'])
  await holder.end()
  expect(await endOf(divide(sql, 12))).toBe(1)
})

test('on a connection of its own a trip is carried out in the order given, and one that fails takes nobody with it', async () => {
  const client = await open().connect()
  const trip = (by: readonly unknown[]) => {
    const { sql, leave } = oneTripOn(client)
    const ends = by.map((each) =>
      endOf(sql.query({ name: 'later', text: 'select 12 / $1::int as n, pg_sleep(0.01), clock_timestamp() as at', values: [each] })),
    )
    void leave()
    return Promise.all(ends)
  }
  // The first time the connection does not know the statement yet.
  for (const _ of ['first', 'second']) expect(await trip([1, 0, 4])).toEqual([12, '22012', 3])
  const { sql, leave } = oneTripOn(client)
  const times = [1, 2, 3].map(async (by) => {
    const { rows } = await sql.query({
      name: 'later',
      text: 'select 12 / $1::int as n, pg_sleep(0.01), clock_timestamp() as at',
      values: [by],
    })
    return (rows[0] as { at: string }).at
  })
  void leave()
  const at = await Promise.all(times)
  expect(at).toEqual(at.toSorted())
  await client.end()
})
