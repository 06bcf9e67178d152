import type { Statement } from '@brokkr/postgres'
import { readColumns } from '@brokkr/testing/describe-statement.ts'
import { database } from '@brokkr/testing/servers/postgres.ts'
import type pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import type { z } from 'zod'
import * as store from './stores.ts'

type Any = Statement<never, unknown>
const statements = Object.entries(store).flatMap(([table, file]) =>
  Object.entries(file).flatMap(([name, value]) =>
    typeof value === 'function' && 'statement' in value ? [{ table, name, statement: (value as unknown as Any).statement }] : [],
  ),
)
const snake = (text: string) => text.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

let client: pg.Client
beforeAll(async () => {
  client = await (await database()).connect()
  return () => client.end()
})

test('statement names are unique and match their module', () => {
  expect(statements.length).toBeGreaterThan(40)
  expect(
    statements.filter(({ table, name, statement }) => statement.name !== `${snake(table)}.${name}`).map(({ statement }) => statement.name),
  ).toEqual([])
  expect(new Set(statements.map(({ statement }) => statement.name)).size).toBe(statements.length)
})

test.each(statements.map(({ statement }) => [statement.name, statement] as const))(
  '%s is understood by the database and returns the columns its row promises',
  async (_, statement) => {
    const columns = await readColumns(client, statement.text)
    if (statement.row !== undefined) expect(columns.toSorted()).toEqual(Object.keys((statement.row as z.ZodObject).shape).toSorted())
  },
)
