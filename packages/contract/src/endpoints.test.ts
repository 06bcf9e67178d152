import { expect, test } from 'vitest'
import { type Endpoint, operationId } from './endpoint.ts'
import { endpoints } from './endpoints.ts'
import { v1Operations } from './v1-operations.fixture.ts'

const table = Object.entries(endpoints) as [string, Endpoint][]
const byOperation = new Map(table.map(([name, endpoint]) => [operationId(name), endpoint]))

test('the list of the first version is whole', () => {
  expect(Object.keys(v1Operations)).toHaveLength(95)
})

test.each(Object.entries(v1Operations))('%s is in the table as %s', (operation, call) => {
  const endpoint = byOperation.get(operation)
  expect(`${endpoint?.method} ${endpoint?.path}`).toBe(call.replace(' ', ' /api/v1'))
})

test('no two endpoints share method and path, and every parameter of a path is described', () => {
  const calls = table.map(([, { method, path }]) => `${method} ${path.replaceAll(/\{\w+\}/g, '{}')}`)
  expect(calls.filter((call, index) => calls.indexOf(call) !== index)).toEqual([])
  for (const [name, { path, params }] of table) {
    const described = params === undefined ? [] : Object.keys((params as unknown as { shape: object }).shape)
    expect(described.toSorted(), name).toEqual([...path.matchAll(/\{(\w+)\}/g)].map((match) => match[1]!).toSorted())
  }
})
