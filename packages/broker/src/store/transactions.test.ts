import { emptyDatabase } from '@brokkr/testing/postgres.ts'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { type Database, openDatabase } from './db.ts'
import type { Sql } from './sql.ts'

let sql: Database
beforeAll(async () => {
  sql = openDatabase({ url: (await emptyDatabase()).url, schema: 'public', poolSize: 1 })
  await sql.query({ name: 'make', text: 'create table kept (n int primary key)', values: [] })
  return () => sql.close()
})
beforeEach(() => sql.query({ name: 'empty', text: 'truncate kept', values: [] }))

const keep = (on: Sql, n: number) => on.query({ name: 'keep', text: 'insert into kept values ($1)', values: [n] })
const kept = async (): Promise<unknown> => {
  const { rows } = await sql.query({ name: 'kept', text: 'select n from kept order by n', values: [] })
  return (rows as { n: number }[]).map(({ n }) => n)
}
const begunAt = async (on: Sql) => (await on.query({ name: 'begunAt', text: 'select now()::text as at', values: [] })).rows

test('on one connection, the first transaction and every later one is one: all of it or nothing', async () => {
  for (const n of [10, 20, 30]) {
    await sql.begin(async (tx) => {
      await keep(tx, n)
      await keep(tx, n + 1)
    })
    await expect(
      sql.begin(async (tx) => {
        await keep(tx, n + 2)
        await keep(tx, n)
      }),
    ).rejects.toMatchObject({ code: '23505' })
  }
  expect(await kept()).toEqual([10, 11, 20, 21, 30, 31])
})

test('its first statement is inside: a failure behind it takes it back', async () => {
  for (const n of [1, 2]) {
    const refused = sql.begin(async (tx) => {
      await keep(tx, n)
      throw new Error('changed my mind')
    })
    await expect(refused).rejects.toThrow('changed my mind')
  }
  expect(await kept()).toEqual([])
})

test('a first statement that fails leaves a connection that begins anew', async () => {
  await sql.begin((tx) => keep(tx, 1))
  await expect(sql.begin((tx) => keep(tx, 1))).rejects.toMatchObject({ code: '23505' })
  const [first, second] = await sql.begin(async (tx) => [await begunAt(tx), await begunAt(tx)])
  expect(second).toEqual(first)
  expect(await kept()).toEqual([1])
})

test('one that asks nothing asks nothing of the database', async () => {
  expect(await sql.begin(() => Promise.resolve('done'))).toBe('done')
  await expect(sql.begin(() => Promise.reject(new Error('no')))).rejects.toThrow('no')
  expect(await sql.begin((tx) => keep(tx, 1))).toEqual({ rows: [], rowCount: 1 })
})

test('inside an outer one, inner ones are kept or taken back by themselves', async () => {
  await sql.beginOuter(async (outer) => {
    await outer.begin((tx) => keep(tx, 1))
    await expect(outer.begin((tx) => keep(tx, 1))).rejects.toMatchObject({ code: '23505' })
    await outer.begin((tx) => keep(tx, 2))
  })
  expect(await kept()).toEqual([1, 2])
})

test('what travels together is carried out in the order given, the first time and later', async () => {
  for (const n of [1, 10, 20]) {
    const answers = await sql.begin(async (tx) => {
      const [, seen] = await tx.together((on) => [
        keep(on, n),
        on.query({ name: 'seen', text: 'select max(n) as n from kept', values: [] }),
      ])
      return seen.rows
    })
    expect(answers).toEqual([{ n }])
  }
  expect(await kept()).toEqual([1, 10, 20])
})

test('the last ones are kept with the commit they travel with, or not at all; what failed is told, and the connection goes on', async () => {
  const add = (...numbers: number[]) =>
    sql.begin(async (tx) => {
      await keep(tx, numbers[0]!)
      return tx.last(
        (on) => numbers.slice(1).map((n) => keep(on, n)),
        () => numbers.length,
      )
    })
  for (const n of [10, 20, 30]) {
    expect(await add(n, n + 1, n + 2)).toBe(3)
    // The first, the middle and the last of them.
    for (const same of [
      [n + 3, n, n + 4, n + 5],
      [n + 3, n + 4, n, n + 5],
      [n + 3, n + 4, n + 5, n],
    ])
      await expect(add(...same)).rejects.toMatchObject({ code: '23505' })
    expect(await add(n + 6)).toBe(1)
  }
  expect(await kept()).toEqual([10, 11, 12, 16, 20, 21, 22, 26, 30, 31, 32, 36])
})

test('one whose every statement is a last one begins and commits', async () => {
  const add = (n: number) =>
    sql.begin((tx) =>
      Promise.resolve(
        tx.last(
          (on) => [keep(on, n)],
          ([{ rowCount }]) => rowCount,
        ),
      ),
    )
  for (const n of [1, 2]) expect(await add(n)).toBe(1)
  await expect(add(1)).rejects.toMatchObject({ code: '23505' })
  expect(await kept()).toEqual([1, 2])
})

test('a commit that PostgreSQL refuses is told', async () => {
  await sql.query({
    name: 'later',
    text: 'create table later (n int, constraint once unique (n) deferrable initially deferred)',
    values: [],
  })
  const add = (n: number) =>
    sql.begin((tx) =>
      Promise.resolve(
        tx.last(
          (on) => [on.query({ name: 'addLater', text: 'insert into later values ($1)', values: [n] })],
          () => 'kept',
        ),
      ),
    )
  expect(await add(1)).toBe('kept')
  for (const _ of ['first', 'second']) await expect(add(1)).rejects.toMatchObject({ code: '23505' })
  expect(await add(2)).toBe('kept')
})

test('whoever asks for more once the others have left is refused', async () => {
  const late = sql.begin((tx) => tx.together((on) => [keep(on, 1).then(() => keep(on, 2))]))
  await expect(late).rejects.toThrow('keep comes too late')
  expect(await kept()).toEqual([])
})

test('in an inner transaction the last ones end it alone', async () => {
  await sql.beginOuter(async (outer) => {
    const add = (n: number) =>
      outer.begin((tx) =>
        Promise.resolve(
          tx.last(
            (on) => [keep(on, n)],
            () => n,
          ),
        ),
      )
    expect(await add(1)).toBe(1)
    await expect(add(1)).rejects.toMatchObject({ code: '23505' })
    expect(await add(2)).toBe(2)
  })
  expect(await kept()).toEqual([1, 2])
})
