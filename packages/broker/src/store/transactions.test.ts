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
