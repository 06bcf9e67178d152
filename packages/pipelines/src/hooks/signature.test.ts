import { createHmac } from 'node:crypto'
import { expect, test } from 'vitest'
import { findSigningKey, isTimely, readSignature, type SignedRequest, toSignedText } from './signature.ts'

const key = { bytes: Buffer.from('s3cr3t') }
const vector = '4f0dd7071c16c76727299c682e30b77975723307eab1975825a918ba234ac88f'

function signed(more: Partial<SignedRequest> = {}, headers: Record<string, string> = {}): SignedRequest {
  return {
    method: 'POST',
    target: '/approval/shop/podinfo/prod/6.0.1',
    body: Buffer.alloc(0),
    ...more,
    headers: {
      'x-signature': `sha256=${vector}`,
      'x-signature-timestamp': '1767225600',
      'x-signature-nonce': 'b3c1d5e7f9a1b3c5',
      ...headers,
    },
  }
}

function verify(request: SignedRequest, keys = [key]): boolean {
  const signature = readSignature(request)
  if (signature.form !== 'full' && signature.form !== 'legacy') return false
  return findSigningKey(request, signature, keys) !== null
}

test('the documented vector verifies', () => expect(verify(signed())).toBe(true))

test.each([
  ['another method', signed({ method: 'PUT' })],
  ['another path', signed({ target: '/approval/shop/podinfo/prod/6.0.2' })],
  ['a query', signed({ target: '/approval/shop/podinfo/prod/6.0.1?a=1' })],
  ['another body', signed({ body: Buffer.from('x') })],
  ['another time', signed({}, { 'x-signature-timestamp': '1767225601' })],
  ['another form of the time', signed({}, { 'x-signature-timestamp': '01767225600' })],
  ['another nonce', signed({}, { 'x-signature-nonce': 'b3c1d5e7f9a1b3c6' })],
  ['an approver that was added', signed({}, { 'x-approver': 'eve' })],
  ['another algorithm', signed({}, { 'x-signature': `sha512=${vector}` })],
  ['upper-case digits', signed({}, { 'x-signature': `sha256=${vector.toUpperCase()}` })],
  ['a short nonce', signed({}, { 'x-signature-nonce': 'short' })],
] as const)('a signature with %s does not verify', (_what, request) => expect(verify(request)).toBe(false))

test('another key does not verify, and the second of two keys does', () => {
  expect(verify(signed(), [{ bytes: Buffer.from('other') }])).toBe(false)
  expect(verify(signed(), [{ bytes: Buffer.from('other') }, key])).toBe(true)
})

test('the approver is the sixth signed line', () => {
  const request = signed()
  const text = toSignedText(request, { timestamp: '1767225600', nonce: 'b3c1d5e7f9a1b3c5', approver: 'ann' })
  expect(text.split('\n')).toHaveLength(6)
  const digest = createHmac('sha384', key.bytes).update(text).digest('hex')
  expect(verify(signed({}, { 'x-signature': `sha384=${digest}`, 'x-approver': 'ann' }))).toBe(true)
  expect(verify(signed({}, { 'x-signature': `sha384=${digest}`, 'x-approver': 'bob' }))).toBe(false)
})

test('a signature without time and nonce is the older form, which covers the body alone', () => {
  const body = Buffer.from('{}')
  for (const algorithm of ['sha224', 'sha256', 'sha384', 'sha512']) {
    const digest = createHmac(algorithm, key.bytes).update(body).digest('hex')
    const request = { method: 'POST', target: '/promotion/a/b/c', body, headers: { 'x-signature': `${algorithm}=${digest}` } }
    expect(readSignature(request).form).toBe('legacy')
    expect(verify(request)).toBe(true)
    expect(verify({ ...request, body: Buffer.from('{ }') })).toBe(false)
  }
  expect(readSignature({ headers: { 'x-signature': `md5=${'0'.repeat(64)}` } }).form).toBe('malformed')
  expect(readSignature({ headers: {} }).form).toBe('none')
})

test('the clock may differ by 300 seconds in both directions', () => {
  expect([-301, -300, 0, 300, 301].map((seconds) => isTimely(1_000 + seconds, 1_000_000))).toEqual([false, true, true, true, false])
})
