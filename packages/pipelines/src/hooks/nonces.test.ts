import { expect, test } from 'vitest'
import { addNonce } from './nonces.ts'

const nowMs = 1_000_000
const nonce = { hash: 'a', expiry: '1300' }

test('a new nonce is stored and expired ones are removed', () => {
  expect(addNonce({ old: '999', kept: '1001' }, nonce, nowMs)).toEqual({ result: 'accepted', patch: { old: null, a: '1300' } })
})

test('a nonce that is stored is used, until it expires', () => {
  expect(addNonce({ a: '1001' }, nonce, nowMs)).toEqual({ result: 'used' })
  expect(addNonce({ a: '1000' }, nonce, nowMs)).toEqual({ result: 'accepted', patch: { a: '1300' } })
})

test('an entry that is no time is removed', () => {
  expect(addNonce({ bad: 'x' }, nonce, nowMs)).toEqual({ result: 'accepted', patch: { bad: null, a: '1300' } })
})

test('the number of nonces is bounded', () => {
  const entries = (expiry: string) => Object.fromEntries(Array.from({ length: 4096 }, (_, index) => [`n${index}`, expiry]))
  expect(addNonce(entries('1001'), nonce, nowMs).result).toBe('full')
  expect(addNonce(entries('999'), nonce, nowMs).result).toBe('accepted')
})
