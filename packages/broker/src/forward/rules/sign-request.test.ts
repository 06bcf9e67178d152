import { createHash, createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import { signRequest } from './sign-request.ts'

const request = {
  method: 'POST' as const,
  target: '/promotions/shop/checkout-prod-1-1-aaaaaaaa/decision',
  body: '{"decision":"approve"}',
  timestampSeconds: 1_767_225_600,
  nonce: 'b3c1d5e7f9a1b3c5',
}
const key = 'a key of the broker with 32 characters'

test('the signature covers method, target, time, nonce, body and approver', () => {
  const bodyHash = createHash('sha256').update(request.body).digest('hex')
  const text = `POST\n${request.target}\n1767225600\nb3c1d5e7f9a1b3c5\n${bodyHash}\nops`
  expect(signRequest({ ...request, approver: 'ops' }, key)).toEqual({
    'x-signature': `sha256=${createHmac('sha256', key).update(text).digest('hex')}`,
    'x-signature-timestamp': '1767225600',
    'x-signature-nonce': 'b3c1d5e7f9a1b3c5',
    'x-approver': 'ops',
  })
})

test.each([
  ['on call, team a', 'on call, team a'],
  ['Jörg', 'J%C3%B6rg'],
  ['100%', '100%25'],
  ['🙂', '%F0%9F%99%82'],
])('the approver %s is sent as %s', (approver, sent) => {
  expect(signRequest({ ...request, approver }, key)['x-approver']).toBe(sent)
})
