import { type PostgresWithFailingQuery, postgresWithFailingQuery } from '@brokkr/testing/faults/postgres-failing-query.ts'
import { emptyDatabase, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { TransactionRolledBack } from './errors.ts'
import { PipelinedClient } from './pipelining.ts'
import { type Database, openDatabase } from './pool.ts'
import type { Sql } from './statements.ts'
import { sendBatch } from './transactions.ts'

let db: TestDatabase
let sql: Database
beforeAll(async () => {
  db = await emptyDatabase()
  sql = openDatabase({ url: db.url, schema: 'public', poolSize: 1 })
  await sql.query({ name: 'make', text: 'create table numbers (n int primary key)', values: [] })
  return () => sql.close()
})
beforeEach(() => sql.query({ name: 'empty', text: 'truncate numbers', values: [] }))

const insert = (on: Sql, n: unknown) => on.query({ name: 'insert', text: 'insert into numbers values ($1)', values: [n] })
const readNumbers = async (): Promise<unknown> => {
  const { rows } = await sql.query({ name: 'readNumbers', text: 'select n from numbers order by n', values: [] })
  return (rows as { n: number }[]).map(({ n }) => n)
}
const readBeginTime = async (on: Sql) => (await on.query({ name: 'now', text: 'select now()::text as at', values: [] })).rows

test('every transaction on a connection is committed or rolled back as a whole', async () => {
  for (const n of [10, 20, 30]) {
    await sql.begin(async (tx) => {
      await insert(tx, n)
      await insert(tx, n + 1)
    })
    const failing = sql.begin(async (tx) => {
      await insert(tx, n + 2)
      await insert(tx, n)
    })
    await expect(failing).rejects.toMatchObject({ code: '23505' })
  }
  expect(await readNumbers()).toEqual([10, 11, 20, 21, 30, 31])
})

test('the first statement of a transaction is rolled back when the work throws', async () => {
  for (const n of [1, 2]) {
    const failing = sql.begin(async (tx) => {
      await insert(tx, n)
      throw new Error('canceled by the work')
    })
    await expect(failing).rejects.toThrow('canceled by the work')
  }
  expect(await readNumbers()).toEqual([])
})

test('a failed first statement leaves a connection that can begin again', async () => {
  await sql.begin((tx) => insert(tx, 1))
  await expect(sql.begin((tx) => insert(tx, 1))).rejects.toMatchObject({ code: '23505' })
  const [first, second] = await sql.begin(async (tx) => [await readBeginTime(tx), await readBeginTime(tx)])
  expect(second).toEqual(first)
  expect(await readNumbers()).toEqual([1])
})

test('a transaction without a statement sends nothing', async () => {
  expect(await sql.begin(() => Promise.resolve('done'))).toBe('done')
  await expect(sql.begin(() => Promise.reject(new Error('no')))).rejects.toThrow('no')
  expect(await sql.begin((tx) => insert(tx, 1))).toEqual({ rows: [], rowCount: 1 })
})

test('a transaction whose work ignores a failed statement is not reported as committed', async () => {
  const ignoring = sql.begin(async (tx) => {
    await insert(tx, 1)
    await insert(tx, 1).catch(() => undefined)
    return 'committed'
  })
  await expect(ignoring).rejects.toBeInstanceOf(TransactionRolledBack)
  expect(await readNumbers()).toEqual([])
})

test('a query after the end of its transaction is refused', async () => {
  const handle = Promise.withResolvers<Sql>()
  await sql.begin(async (tx) => {
    handle.resolve({ ...tx })
    await insert(tx, 1)
  })
  await expect(insert(await handle.promise, 2)).rejects.toThrow('after the end of its transaction')
  expect(await readNumbers()).toEqual([1])
})

test('a query after the end of its inner transaction is refused', async () => {
  const handles: Sql[] = []
  await sql.beginOuter(async (outer) => {
    await outer.begin(async (tx) => {
      handles.push({ ...tx })
      await insert(tx, 1)
    })
    const failing = outer.begin((tx) => {
      handles.push({ ...tx })
      return Promise.reject(new Error('canceled by the work'))
    })
    await expect(failing).rejects.toThrow('canceled by the work')
    for (const tx of handles) await expect(insert(tx, 2)).rejects.toThrow('after the end of its transaction')
  })
  expect(handles).toHaveLength(2)
  expect(await readNumbers()).toEqual([1])
})

test('an inner transaction after the end of the outer one is refused', async () => {
  const handle = Promise.withResolvers<Sql>()
  await sql.beginOuter(async (outer) => {
    handle.resolve({ ...outer })
    await outer.begin((tx) => insert(tx, 1))
  })
  const late = (await handle.promise).begin((tx) => insert(tx, 2))
  await expect(late).rejects.toThrow('after the end of its transaction')
  expect(await readNumbers()).toEqual([1])
})

test('inner transactions of an outer one are released or rolled back on their own', async () => {
  await sql.beginOuter(async (outer) => {
    await outer.begin((tx) => insert(tx, 1))
    await expect(outer.begin((tx) => insert(tx, 1))).rejects.toMatchObject({ code: '23505' })
    await outer.begin((tx) => insert(tx, 2))
  })
  expect(await readNumbers()).toEqual([1, 2])
})

test('an inner transaction whose work ignores a failed statement fails alone', async () => {
  await sql.beginOuter(async (outer) => {
    await outer.begin((tx) => insert(tx, 1))
    const ignoring = outer.begin(async (tx) => {
      await insert(tx, 1).catch(() => undefined)
    })
    await expect(ignoring).rejects.toMatchObject({ code: '25P02' })
    await outer.begin((tx) => insert(tx, 2))
  })
  expect(await readNumbers()).toEqual([1, 2])
})

test('pipelined queries of a transaction run in the order in which they were created', async () => {
  for (const n of [1, 10, 20]) {
    const seen = await sql.begin(async (tx) => {
      const [, max] = await tx.pipeline((on) => [
        insert(on, n),
        on.query({ name: 'max', text: 'select max(n) as n from numbers', values: [] }),
      ])
      return max.rows
    })
    expect(seen).toEqual([{ n }])
  }
  expect(await readNumbers()).toEqual([1, 10, 20])
})

test('a pipelined commit commits the last queries, or rolls back and reports the failed one', async () => {
  const add = (...numbers: number[]) =>
    sql.begin(async (tx) => {
      await insert(tx, numbers[0]!)
      return tx.commitWith(
        (on) => numbers.slice(1).map((n) => insert(on, n)),
        () => numbers.length,
      )
    })
  for (const n of [10, 20, 30]) {
    expect(await add(n, n + 1, n + 2)).toBe(3)
    // The first, the middle and the last query fails.
    for (const numbers of [
      [n + 3, n, n + 4, n + 5],
      [n + 3, n + 4, n, n + 5],
      [n + 3, n + 4, n + 5, n],
    ])
      await expect(add(...numbers)).rejects.toMatchObject({ code: '23505' })
    expect(await add(n + 6)).toBe(1)
  }
  expect(await readNumbers()).toEqual([10, 11, 12, 16, 20, 21, 22, 26, 30, 31, 32, 36])
})

test('a transaction whose only queries are pipelined with its commit begins and commits', async () => {
  const add = (n: number) =>
    sql.begin((tx) =>
      Promise.resolve(
        tx.commitWith(
          (on) => [insert(on, n)],
          ([{ rowCount }]) => rowCount,
        ),
      ),
    )
  for (const n of [1, 2]) expect(await add(n)).toBe(1)
  await expect(add(1)).rejects.toMatchObject({ code: '23505' })
  expect(await readNumbers()).toEqual([1, 2])
})

test('a pipelined commit is not sent when one of its queries could not be sent', async () => {
  const failing = sql.begin((tx) =>
    Promise.resolve(
      tx.commitWith(
        (on) => [insert(on, 1), insert(on, () => 2)],
        () => 'committed',
      ),
    ),
  )
  await expect(failing).rejects.toThrow('a function cannot be a parameter')
  expect(await readNumbers()).toEqual([])
})

test('an error of the commit itself is reported', async () => {
  const text = 'create table deferred (n int, constraint once unique (n) deferrable initially deferred)'
  await sql.query({ name: 'makeDeferred', text, values: [] })
  const add = (n: number) =>
    sql.begin((tx) =>
      Promise.resolve(
        tx.commitWith(
          (on) => [on.query({ name: 'addDeferred', text: 'insert into deferred values ($1)', values: [n] })],
          () => 'committed',
        ),
      ),
    )
  expect(await add(1)).toBe('committed')
  for (const _ of ['first', 'second']) await expect(add(1)).rejects.toMatchObject({ code: '23505' })
  expect(await add(2)).toBe('committed')
})

test('a query that is created from a result of its pipeline is refused', async () => {
  const late = sql.begin((tx) => tx.pipeline((on) => [insert(on, 1).then(() => insert(on, 2))]))
  await expect(late).rejects.toThrow('insert comes too late')
  expect(await readNumbers()).toEqual([])
})

test('a pipelined commit of an inner transaction releases its savepoint alone', async () => {
  await sql.beginOuter(async (outer) => {
    const add = (n: number) =>
      outer.begin((tx) =>
        Promise.resolve(
          tx.commitWith(
            (on) => [insert(on, n)],
            () => n,
          ),
        ),
      )
    expect(await add(1)).toBe(1)
    await expect(add(1)).rejects.toMatchObject({ code: '23505' })
    expect(await add(2)).toBe(2)
  })
  expect(await readNumbers()).toEqual([1, 2])
})

async function connectPipelined(url: string = db.url): Promise<PipelinedClient> {
  const client = new PipelinedClient({ connectionString: url, application_name: 'batch' })
  client.on('error', () => undefined)
  await client.connect()
  onTestFinished(() => client.end())
  return client
}
const batchInsert = (...numbers: readonly string[]) => ({
  text: 'insert into numbers select n::int from unnest($1::text[]) as u(n) on conflict do nothing',
  values: [`{${numbers.join(',')}}`],
})

test('the statements of a batch are committed together, each with its row count', async () => {
  const client = await connectPipelined()
  const batch = sendBatch(client, [
    batchInsert('1', '2'),
    batchInsert('2', '3'),
    { text: 'delete from numbers where n = $1', values: ['3'] },
  ])
  await batch.committed
  expect(batch.counts).toEqual([2, 1, 1])
  expect(await readNumbers()).toEqual([1, 2])
})

test('a failed statement rolls its batch back, and the connection stays usable', async () => {
  const client = await connectPipelined()
  const batch = sendBatch(client, [batchInsert('1'), batchInsert('no number'), batchInsert('3')])
  await expect(batch.committed).rejects.toMatchObject({ code: '22P02' })
  expect(batch.counts).toEqual([1])
  expect(await readNumbers()).toEqual([])
  await sendBatch(client, [batchInsert('4')]).committed
  expect(await readNumbers()).toEqual([4])
})

test('a deferred constraint rolls back the whole batch', async () => {
  const client = await connectPipelined()
  await client.query('create table if not exists parents (id int primary key)')
  await client.query('create table if not exists children (id int references parents deferrable initially deferred)')
  const batch = sendBatch(client, [batchInsert('1'), { text: 'insert into children values ($1)', values: ['7'] }])
  await expect(batch.committed).rejects.toMatchObject({ code: '23503' })
  expect(await readNumbers()).toEqual([])
})

test('a batch is flushed while the server still works on it, and fails when its session ends', async () => {
  const client = await connectPipelined()
  const holder = await db.connect()
  await holder.query('select pg_advisory_lock(7)')
  const text = 'select length($1::text) from (select pg_advisory_xact_lock(7)) as locked'
  const batch = sendBatch(client, [{ text, values: ['x'.repeat(3 << 20)] }])
  const outcome = batch.committed.catch((error: unknown) => error)
  await client.flush()
  const waiting = `select pid from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'batch'`
  await waitFor('the batch to wait for the lock', async () => (await holder.query(waiting)).rowCount === 1)
  await holder.query(`select pg_terminate_backend(pid) from (${waiting}) w`)
  expect(await outcome).toMatchObject({ code: '57P01' })
  await holder.end()
  await expect(sendBatch(client, [batchInsert('4')]).committed).rejects.toThrow(/not queryable|terminated/)
})

test('a connection that flushes many batches keeps no listeners', async () => {
  const client = await connectPipelined()
  const warnings: Error[] = []
  const collect = (warning: Error) => warnings.push(warning)
  process.on('warning', collect)
  onTestFinished(() => void process.off('warning', collect))
  for (let round = 0; round < 20; round += 1) {
    const batch = sendBatch(client, [{ text: 'select length($1::text)', values: ['x'.repeat(3 << 20)] }])
    await client.flush()
    await batch.committed
  }
  expect(warnings).toEqual([])
})

async function startFailing(): Promise<{ proxy: PostgresWithFailingQuery; database: Database }> {
  const proxy = await postgresWithFailingQuery(db.url)
  const database = openDatabase({ url: proxy.url, schema: 'public', poolSize: 1 })
  onTestFinished(async () => {
    await database.close()
    await proxy.close()
  })
  return { proxy, database }
}
const commitInsert = (database: Sql, n: number) =>
  database.begin((tx) =>
    Promise.resolve(
      tx.commitWith(
        (on) => [insert(on, n)],
        () => n,
      ),
    ),
  )

const firstStatements: readonly [string, (database: Database) => Promise<unknown>][] = [
  ['a transaction', (database) => database.begin((tx) => insert(tx, 1))],
  ['a pipeline', (database) => database.begin((tx) => tx.pipeline((on) => [insert(on, 1)]))],
  ['a transaction with a pipelined commit', (database) => commitInsert(database, 1)],
  ['an outer transaction', (database) => database.beginOuter((outer) => insert(outer, 1))],
  ['an inner transaction', (database) => database.beginOuter((outer) => outer.begin((tx) => insert(tx, 1)))],
]
test.each(firstStatements)('the first statement of %s is not sent when begin is canceled', async (_, write) => {
  const { proxy, database } = await startFailing()
  proxy.failNext('begin')
  await expect(write(database)).rejects.toMatchObject({ code: '57014' })
  expect(proxy.failures).toBe(1)
  expect(await readNumbers()).toEqual([])
  await write(database)
  expect(await readNumbers()).toEqual([1])
})

test('a transaction whose commit is canceled is rolled back and leaves a usable connection', async () => {
  const { proxy, database } = await startFailing()
  for (const write of [() => database.begin((tx) => insert(tx, 1)), () => commitInsert(database, 1)]) {
    proxy.failNext('commit')
    await expect(write()).rejects.toMatchObject({ code: '57014' })
  }
  await database.begin((tx) => insert(tx, 2))
  expect(await readNumbers()).toEqual([2])
})

test('a canceled savepoint fails the whole outer transaction', async () => {
  const { proxy, database } = await startFailing()
  const outer = database.beginOuter(async (on) => {
    await insert(on, 1)
    proxy.failNext('savepoint inner_work')
    await on.begin((tx) => insert(tx, 2)).catch(() => undefined)
  })
  await expect(outer).rejects.toBeInstanceOf(TransactionRolledBack)
  expect(await readNumbers()).toEqual([])
})

test.each(['begin', 'commit'])('a batch whose %s is canceled writes nothing and leaves a usable connection', async (text) => {
  const { proxy } = await startFailing()
  const client = await connectPipelined(proxy.url)
  proxy.failNext(text)
  await expect(sendBatch(client, [batchInsert('1')]).committed).rejects.toMatchObject({ code: '57014' })
  expect(await readNumbers()).toEqual([])
  await sendBatch(client, [batchInsert('2')]).committed
  expect(await readNumbers()).toEqual([2])
})

test('a batch whose rollback is canceled too destroys its connection', async () => {
  const { proxy } = await startFailing()
  const client = await connectPipelined(proxy.url)
  proxy.failNext('rollback')
  await expect(sendBatch(client, [batchInsert('no number')]).committed).rejects.toMatchObject({ code: '22P02' })
  expect(proxy.failures).toBe(1)
  await expect(sendBatch(client, [batchInsert('2')]).committed).rejects.toThrow(/not queryable|terminated|closed/)
})

test('a destroyed connection fails its batch at once', async () => {
  const client = await connectPipelined()
  const outcome = sendBatch(client, [{ text: 'select pg_sleep($1)', values: ['30'] }]).committed.catch((error: Error) => error.message)
  client.destroy()
  expect(await outcome).toMatch(/terminated/)
})
