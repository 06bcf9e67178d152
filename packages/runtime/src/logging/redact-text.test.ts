import { size } from '@brokkr/testing/sizes.ts'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { redactText } from './redact-text.ts'

const pak = 'brokkr_BRx7Kd2q_4fJ8mPq2VxRt9sWz3bNc6yHk'
const jwt = 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl'

test.each([
  ['postgres://u:p@h/d', 'postgres://h/d'],
  ['connect postgres://brokkr:s3cr/e@t@db:5432/brokkr failed', 'connect postgres://db:5432/brokkr failed'],
  ['https://user:pass@host/path?token=1#frag', 'https://host/path?***'],
  ['https://host/path#one-time-token', 'https://host/path#***'],
  ['https://host/a@2x.png', 'https://host/a@2x.png'],
  ['https://u:p/q@host/x', 'https://host/x'],
  ['see https://host:8443/path, then go on', 'see https://host:8443/path, then go on'],
  ['https://[::1]:8443/x?y', 'https://[::1]:8443/x?***'],
  ['amqp://u:p@h', 'amqp://h'],
  [`key ${pak} refused`, 'key brokkr_*** refused'],
  [`brokkr.pak.${pak}`, 'brokkr.pak.brokkr_***'],
  ['jt_ab12cd34_Zm9vYmFyYmF6cXV4', 'jt_***'],
  ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'whsec_***'],
  ['authorization: Bearer abc.def', 'authorization: ***'],
  ['sent Bearer abcdef123 to it', 'sent Bearer *** to it'],
  ['the Bearer token is missing', 'the Bearer token is missing'],
  ['Basic dXNlcjpwYXNz', 'Basic ***'],
  ['Basic authentication is off', 'Basic authentication is off'],
  ['Cookie: __Host-brokkr_session=abc; x=y', 'Cookie: ***'],
  ['host=db user=x password=hunter2 sslmode=require', 'host=db user=x password=*** sslmode=require'],
  ["password='two words' next", 'password=*** next'],
  ['{"password":"hunter2","user":"x"}', '{"password":***,"user":"x"}'],
  ['{\\"token\\":\\"hunter2\\"}', '{\\"token\\":***}'],
  ['client_secret: hunter2', 'client_secret: ***'],
  ['token: expected a string', 'token: expected a string'],
  [`token ${jwt} expired`, 'token *** expired'],
  ['ghp_0123456789abcdefghij', '***'],
  ['-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----\nrest', '*** (private key)\nrest'],
  ['-----BEGIN PRIVATE KEY-----\nMHcCAQEE', '*** (private key)'],
  ['nothing to hide in stack web/api', 'nothing to hide in stack web/api'],
  ['', ''],
])('%j becomes %j', (text, expected) => {
  expect(redactText(text)).toBe(expected)
})

const secrets = [
  pak,
  'jt_ab12cd34_Zm9vYmFyYmF6cXV4',
  'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw',
  jwt,
  'postgres://u:hunter2hunter2@h/d',
  'https://h/p?key=hunter2hunter2',
  'Authorization: Digest hunter2hunter2',
]
const hidden = ['4fJ8mPq2VxRt9sWz3bNc6yHk', 'Zm9vYmFyYmF6cXV4', 'MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw', 'c2lnbmF0dXJl', 'hunter2hunter2']

test('a credential anywhere in any text is masked, and the bound holds', { timeout: 20_000 + 100 * size('Q7.cases') }, () => {
  const filler = fc.oneof(
    fc.string({ maxLength: 60 }),
    fc.string({ minLength: 0, maxLength: 3 }).map((text) => text.repeat(900)),
  )
  const cases = fc.tuple(
    fc.array(fc.tuple(filler, fc.constantFrom(' ', '\n', '; '), fc.constantFrom(...secrets), fc.constantFrom(' ', '\n', '')), {
      minLength: 1,
      maxLength: 6,
    }),
    fc.integer({ min: 20, max: 6_000 }),
  )
  fc.assert(
    fc.property(cases, ([parts, charsMax]) => {
      const cleaned = redactText(parts.flat().join(''), charsMax)
      expect(cleaned.length).toBeLessThanOrEqual(charsMax)
      for (const secret of hidden) expect(cleaned).not.toContain(secret)
    }),
    { numRuns: size('Q7.cases') },
  )
})

test.each(['a', 'a:', 'aaaa://', '_BR', 'eyJ.', 'password=', 'jt_a_', '"', '-----BEGIN PRIVATE KEY-----', 'Bearer '])(
  'a megabyte of %j is no stall',
  (piece) => {
    const startedMs = performance.now()
    expect(redactText(piece.repeat(1_000_000 / piece.length)).length).toBeLessThanOrEqual(4_096)
    expect(performance.now() - startedMs).toBeLessThan(1_000)
  },
)

test('half a credential at the cut does not stay behind', () => {
  for (let before = 8_150; before < 8_200; before += 1) {
    expect(redactText(`${'postgres://u:p@h '.repeat(before / 17)} ${pak}`)).not.toMatch(/_BRx/)
  }
})
