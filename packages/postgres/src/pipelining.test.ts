import { emptyDatabase, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterEach, beforeAll, expect, test } from 'vitest'
import { inFlightMax, PipelinedClient, pipelineQueries, toSql } from './pipelining.ts'
import { type Database, type DatabaseOptions, openDatabase } from './pool.ts'
import type { Sql } from './statements.ts'

let db: TestDatabase
const databases: Database[] = []
beforeAll(async () => {
  db = await emptyDatabase()
})
afterEach(() => Promise.all(databases.splice(0).map((database) => database.close())))

const open = (options: Partial<DatabaseOptions> = {}): Database => {
  const database = openDatabase({ url: db.url, schema: 'public', poolSize: 4, ...options })
  databases.push(database)
  return database
}
const divide = (sql: Sql, by: unknown) => sql.query({ name: 'divide', text: 'select 12 / $1::int as n', values: [by], isLookUp: true })
const toOutcome = (result: ReturnType<typeof divide>): Promise<unknown> =>
  result.then(
    ({ rows }) => (rows[0] as { n: number }).n,
    (error: { code?: string }) => error.code ?? 'connection lost',
  )

test('concurrent look-ups share a connection, and a failed one does not affect the others', async () => {
  const sql = open()
  await divide(sql, 1)
  const outcomes = await Promise.all([1, 2, 0, 3, 'x', 4].map((by) => toOutcome(divide(sql, by))))
  expect(outcomes).toEqual([12, 6, '22012', 4, '22P02', 3])
  expect(sql.pool.total).toBe(1)
})

test('look-ups use another connection when too many queries are in flight', async () => {
  const sql = open()
  const outcomes = await Promise.all(Array.from({ length: 2 * inFlightMax + 1 }, () => toOutcome(divide(sql, 3))))
  expect(outcomes).toEqual(Array(2 * inFlightMax + 1).fill(4))
  expect(sql.pool.total).toBe(3)
})

test('look-ups leave their connection to a transaction that waits for it', async () => {
  const sql = open({ poolSize: 1 })
  const transaction = { isDone: false }
  const lookUps = Array.from({ length: 4 }, async () => {
    while (!transaction.isDone) await divide(sql, 3)
  })
  await sql.begin((tx) => divide(tx, 2))
  transaction.isDone = true
  await Promise.all(lookUps)
  expect(sql.pool.total).toBe(1)
})

test('a transaction never runs on a connection that look-ups use', async () => {
  const sql = open({ poolSize: 2, statementTimeoutMs: 60_000, applicationName: 'apart' })
  const holder = await db.connect()
  await holder.query('select pg_advisory_lock(9)')
  const ask = async (on: Sql, name: string, from: string): Promise<unknown> =>
    (await on.query({ name, text: `select pg_backend_pid() as pid from (${from}) as asked`, values: [], isLookUp: true })).rows[0]
  const wait = () => ask(sql, 'wait', 'select pg_advisory_xact_lock_shared(9)')
  // The look-up waits for the lock as long as the test needs.
  const shared = await ask(sql, 'unlimited', `select set_config('lock_timeout', '0', false)`)
  const first = wait()
  const waiting = `select from pg_stat_activity where application_name = 'apart' and wait_event_type = 'Lock'`
  await waitFor('the look-up to wait', async () => (await holder.query(waiting)).rowCount === 1)
  let second: Promise<unknown> = Promise.resolve()
  const alone = await sql.begin(async (tx) => {
    const pid = await ask(tx, 'pid', 'select 1')
    second = wait()
    await ask(tx, 'pid', 'select 1')
    return pid
  })
  await holder.query('select pg_advisory_unlock(9)')
  expect(await Promise.all([first, second])).toEqual([shared, shared])
  expect(alone).not.toEqual(shared)
  await holder.end()
})

test('a statement that cannot be parsed does not fail others', async () => {
  const sql = open()
  const broken = () => sql.query({ name: 'broken', text: 'select missing_column', values: [], isLookUp: true })
  expect(await Promise.all([toOutcome(broken()), toOutcome(divide(sql, 6)), toOutcome(broken())])).toEqual(['42703', 2, '42703'])
})

test('a look-up runs again when the first use of its name failed to parse', async () => {
  const sql = open({ applicationName: 'parse-fails' })
  const [holder, observer] = [await db.connect(), await db.connect()]
  await holder.query('create table locked as select 7 as n')
  await holder.query('begin; lock table locked in access exclusive mode')
  const read = () => sql.query({ name: 'locked', text: 'select n from locked', values: [], isLookUp: true })
  // All of them are in flight: the first waits for the lock in Parse, and its lock timeout leaves the others without a prepared statement.
  const outcomes = Promise.all([toOutcome(read()), toOutcome(read()), toOutcome(read())])
  const waiting = `select from pg_stat_activity where application_name = 'parse-fails' and wait_event_type = 'Lock'`
  await waitFor('the first look-up to wait for the lock', async () => (await observer.query(waiting)).rowCount === 1)
  await observer.query(`select pg_cancel_backend(pid) from pg_stat_activity where application_name = 'parse-fails'`)
  await holder.query('commit')
  expect(await outcomes).toEqual(['57014', 7, 7])
  await Promise.all([holder.end(), observer.end()])
})

test('without the retry, queries behind a failed parse of their name fail with 26000', async () => {
  const client = new PipelinedClient({ connectionString: db.url })
  await client.connect()
  const run = () =>
    client.query({ name: 'unparsed', text: 'select missing_column', values: [] }).catch((error: { code: string }) => error.code)
  expect(await Promise.all([run(), run(), run()])).toEqual(['42703', '26000', '26000'])
  await client.end()
})

test('a value that cannot be serialized leaves its statement name usable on the connection', async () => {
  const sql = open({ poolSize: 1 })
  const circular: Record<string, unknown> = {}
  circular['self'] = circular
  const readBackend = async () => (await sql.query({ name: 'pid', text: 'select pg_backend_pid() as pid', values: [] })).rows
  const backend = await readBackend()
  for (const isLookUp of [true, false]) {
    const echo = (value: unknown) => sql.query({ name: `echo-${isLookUp}`, text: 'select $1::jsonb as j', values: [value], isLookUp })
    await expect(echo(circular)).rejects.toThrow(/circular/i)
    await expect(echo(() => 1)).rejects.toThrow('a function cannot be a parameter')
    expect((await echo({ a: [1] })).rows).toEqual([{ j: { a: [1] } }])
  }
  expect(await readBackend()).toEqual(backend)
})

test('values are unchanged at the first and the second use of a statement', async () => {
  const sql = open()
  const text =
    'select $1::text as t, $2::bytea as b, $3::text[] as l, $4::jsonb as j, $5::int8 as i, $6::boolean as y, $7::timestamptz as at, $8::bytea[] as bs'
  const row = { t: 'grün €\n', b: Buffer.from([0, 255]), l: ['a"b', null, ''], j: { a: [1] }, i: 9007199254740991, y: false }
  const values = [...Object.values(row), '2026-01-02 03:04:05.1+00', [Buffer.from([1, 92]), Buffer.alloc(0)]]
  for (const _ of ['first', 'second'])
    expect((await sql.query({ name: 'echo', text, values })).rows).toEqual([
      { ...row, at: '2026-01-02T03:04:05.100000Z', bs: [Buffer.from([1, 92]), Buffer.alloc(0)] },
    ])
  const nulls = await sql.query({ name: 'echo', text, values: values.map(() => null) })
  expect(nulls.rows).toEqual([{ t: null, b: null, l: null, j: null, i: null, y: null, at: null, bs: null }])
})

test('an integer beyond the exact range of numbers is an error', async () => {
  const query = open().query({ name: 'large', text: 'select 9007199254740993::int8 as n', values: [] })
  await expect(query).rejects.toThrow('9007199254740993 does not fit')
})

test('a result has the number of changed rows, with and without returned rows', async () => {
  const sql = open()
  const run = (name: string, text: string) => sql.query({ name, text, values: [] })
  await run('make', 'create table counted (n int)')
  expect((await run('add', 'insert into counted select generate_series(1, 3)')).rowCount).toBe(3)
  for (const _ of ['first', 'second']) expect((await run('change', 'update counted set n = n + 1')).rowCount).toBe(3)
  expect(await run('none', 'update counted set n = 0 where false returning n')).toEqual({ rows: [], rowCount: 0 })
})

test('two texts under one statement name are an error', async () => {
  const sql = open({ poolSize: 1 })
  await divide(sql, 1)
  await expect(sql.query({ name: 'divide', text: 'select 1', values: [] })).rejects.toThrow(/must be unique/)
})

test('an error of PostgreSQL has the stack of the caller', async () => {
  const sql = open()
  const callDivide = async () => {
    await divide(sql, 0)
  }
  const error = await callDivide().catch((thrown: Error) => thrown)
  expect((error as Error).stack).toContain('callDivide')
})

test('all look-ups on a broken connection fail, and the next one has a new connection', async () => {
  const sql = open({ applicationName: 'breaking' })
  const wait = () => sql.query({ name: 'wait', text: 'select pg_advisory_xact_lock_shared(7)::text as n', values: [], isLookUp: true })
  await wait()
  const holder = await db.connect()
  await holder.query('select pg_advisory_lock(7)')
  const outcomes = Promise.all([wait(), wait(), wait()].map(toOutcome))
  const waiting = `select from pg_stat_activity where application_name = 'breaking' and wait_event_type = 'Lock'`
  await waitFor('the first look-up to wait', async () => (await holder.query(waiting)).rowCount === 1)
  await holder.query(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'breaking'`)
  expect(await outcomes).toEqual(['57P01', 'connection lost', 'connection lost'])
  await holder.end()
  expect(await toOutcome(divide(sql, 12))).toBe(1)
})

test('a look-up that exceeds the statement timeout of the server fails alone', async () => {
  const sql = open({ statementTimeoutMs: 100 })
  await divide(sql, 1)
  const slow = sql.query({ name: 'slow', text: 'select pg_sleep(30)::text as n', values: [], isLookUp: true })
  expect(await Promise.all([toOutcome(divide(sql, 2)), toOutcome(slow), toOutcome(divide(sql, 3))])).toEqual([6, '57014', 4])
  expect(sql.pool.total).toBe(1)
})

test('a query timeout of the driver destroys the connection and fails its neighbors', async () => {
  const client = new PipelinedClient({ connectionString: db.url, query_timeout: 100 })
  client.on('error', () => undefined)
  await client.connect()
  const slow = client.query('select pg_sleep(30)')
  const neighbor = client.query({ text: 'select 1', query_timeout: 20_000 } as { text: string })
  await expect(slow).rejects.toThrow('Query read timeout')
  await expect(neighbor).rejects.toThrow(/Connection terminated/)
  await client.end()
})

test('each of many concurrent statements gets its own rows although others fail', async () => {
  const sql = open()
  const read = (n: number) =>
    sql.query({
      name: `rows-${n % 7}`,
      // The seven statements differ in columns and row counts, so that a result of another statement is noticed.
      text: `select $1::int as n, ${Array.from({ length: n % 7 }, (_, column) => `$1::int + ${column} as c${column}`).join(', ') || '0 as none'},
        case when $1::int % 10 = 9 then (1 / ($1::int - $1::int))::text else repeat('x', $1::int % 3000) end as text
        from generate_series(1, $1::int % 5)`,
      values: [n],
      isLookUp: n % 3 !== 0,
    })
  for (const round of [0, 1, 2]) {
    const numbers = Array.from({ length: 200 }, (_, at) => round * 200 + at)
    const outcomes = await Promise.allSettled(numbers.map(read))
    outcomes.forEach((outcome, at) => {
      const n = numbers[at]!
      if (n % 10 === 9 && n % 5 > 0) return expect([n, outcome.status]).toEqual([n, 'rejected'])
      if (outcome.status === 'rejected') throw outcome.reason
      const rows = outcome.value.rows as Record<string, unknown>[]
      expect(rows).toHaveLength(n % 5)
      for (const row of rows) {
        expect([row['n'], row['text']]).toEqual([n, 'x'.repeat(n % 3000)])
        expect(Object.keys(row)).toHaveLength(n % 7 === 0 ? 3 : 2 + (n % 7))
      }
    })
  }
})

test('a canceled statement leaves its connection usable', async () => {
  const sql = open({ applicationName: 'canceled' })
  const outcome = toOutcome(sql.query({ name: 'slow', text: `select pg_sleep(30)::text as n`, values: [] }))
  const holder = await db.connect()
  const running = `select pid from pg_stat_activity where application_name = 'canceled' and state = 'active' and query like '%pg_sleep%'`
  await waitFor('the statement to run', async () => (await holder.query(running)).rowCount === 1)
  await holder.query(`select pg_cancel_backend(pid) from pg_stat_activity where application_name = 'canceled'`)
  await holder.end()
  expect(await outcome).toBe('57014')
  expect(await Promise.all([1, 2, 3, 4].map((by) => toOutcome(divide(sql, by))))).toEqual([12, 6, 4, 3])
  expect(sql.pool.total).toBe(1)
})

test('a connection outside the pool runs pipelined queries in order', async () => {
  const client = await open().connect()
  const connection = toSql(client)
  const query: Sql['query'] = (statement) => connection.query(statement)
  const text = 'select 12 / $1::int as n, pg_sleep(0.01), clock_timestamp() as at'
  const later = (sql: Sql, by: number) => sql.query({ name: 'later', text, values: [by] })
  for (const _ of ['first', 'second'])
    expect(await pipelineQueries(query, (sql) => [1, 0, 4].map((by) => toOutcome(later(sql, by))))).toEqual([12, '22012', 3])
  const results = await pipelineQueries(query, (sql) => [1, 2, 3].map((by) => later(sql, by)))
  const times = results.map(({ rows }) => (rows[0] as { at: string }).at)
  expect(times).toEqual(times.toSorted())
  await client.end()
})

test('a pipelined connection refuses custom query classes such as COPY', async () => {
  const client = await open().connect()
  const custom = new (class {
    readonly outcome = Promise.withResolvers<Error>()
    submit(): void {}
    handleError(error: Error): void {
      this.outcome.resolve(error)
    }
  })()
  client.query(custom)
  expect((await custom.outcome.promise).message).toMatch(/not supported in pipeline mode/)
  await client.end()
})
