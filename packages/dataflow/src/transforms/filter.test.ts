import { expect, test } from 'vitest'
import { chainOf, failure, recordsOf, runChain, step } from '../processor/test-parts/chains.ts'

const filter = (condition: string, more = {}) => step('filter', { condition }, more)
const isKept = (condition: string, payload: string | Uint8Array | undefined, metadata = {}) =>
  recordsOf(runChain(chainOf(filter(condition)), payload, { metadata })).length === 1

test('a dropped message has its reason', () => {
  expect(isKept('active', '{"active":true}')).toBe(true)
  expect(runChain(chainOf(filter('active')), '{"active":false}')).toEqual({ do: 'drop', reason: 'filter' })
})

test('[D2] filter evaluates texts, nested values and the word false', () => {
  expect(isKept('name', '{"name":"test"}')).toBe(true)
  expect(isKept('name', '{"name":""}')).toBe(false)
  expect(isKept('user.active', '{"user":{"active":true}}')).toBe(true)
  expect(isKept('user.active', '{}')).toBe(false)
  expect(isKept('$.on', '{"on":"false"}')).toBe(false)
  expect(isKept('$.on', '{"on":"no"}')).toBe(true)
})

test('[D3] filter evaluates queries', () => {
  const items = '{"items":[{"k":"y","p":5},{"k":"x","p":20}]}'
  expect(isKept('items.#(k=="x")', items)).toBe(true)
  expect(isKept('items.#(p>10)', items)).toBe(true)
  expect(isKept('items.#(p>30)', items)).toBe(false)
})

test('a payload that is not JSON passes only a condition that does not need it', () => {
  expect(isKept('active', 'not-json')).toBe(false)
  expect(isKept('!active', 'not-json')).toBe(true)
  expect(isKept("metadata.topic == 't'", Uint8Array.of(0xff), { topic: 't' })).toBe(true)
  expect(isKept('active', undefined)).toBe(false)
  expect(failure(filter('!active', { onNonJson: 'error' }), 'not-json')).toBe('filter: $: is not JSON')
})
