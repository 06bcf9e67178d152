import { expect, test } from 'vitest'
import { buildSignatureHeaders, createSigningSecret } from './deliver.ts'

test('the signature equals the example of the standard', () => {
  const headers = buildSignatureHeaders({
    deliveryId: 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    payload: '{"test": 2432232314}',
    unixSeconds: 1614265330,
    secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'],
  })
  expect(headers).toEqual({
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  })
})

test('while a secret is replaced both sign, the new one first', () => {
  const secrets = [createSigningSecret(), createSigningSecret()]
  const sign = (given: readonly string[]) =>
    buildSignatureHeaders({ deliveryId: 'd', payload: '{}', unixSeconds: 1, secrets: given })['webhook-signature']
  expect(sign(secrets)).toBe(`${sign(secrets.slice(0, 1))} ${sign(secrets.slice(1))}`)
  expect(secrets[0]).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/)
})
