import { expect, test } from 'vitest'
import { mayCarryToken } from './identity.ts'

test.each([
  ['127.0.0.1', false, true],
  ['::1', false, true],
  ['::ffff:127.0.0.1', false, true],
  ['10.0.0.1', false, false],
  ['::ffff:10.0.0.1', false, false],
  ['', false, false],
  ['203.0.113.9', true, true],
])('a token from %s, encrypted %s, is accepted: %s', (remoteAddress, isEncrypted, accepted) => {
  expect(mayCarryToken({ remoteAddress, isEncrypted })).toBe(accepted)
})
