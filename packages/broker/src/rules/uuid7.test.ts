import { expect, test } from 'vitest'
import { uuid7 } from './uuid7.ts'

test('ids of one process ascend, also within a millisecond', () => {
  const ids = Array.from({ length: 20_000 }, () => uuid7())
  expect(ids).toEqual(ids.toSorted())
  expect(new Set(ids).size).toBe(ids.length)
})

test('an id has version 7, the RFC variant and the current time', () => {
  const before = Date.now()
  const id = uuid7()
  expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(Number.parseInt(id.replaceAll('-', '').slice(0, 12), 16)).toBeGreaterThanOrEqual(before)
})
