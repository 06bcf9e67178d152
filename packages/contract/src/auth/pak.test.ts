import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { generateLoginToken, generatePak, hashPak, toBase58 } from './pak.ts'

test('a PAK has three parts, 192 bits, and the hash of its long part', async () => {
  const made = await generatePak()
  const [prefix, short, long] = made.pak.split('_')
  expect([prefix, short]).toEqual(['brokkr', made.short])
  expect(short).toMatch(/^BR[1-9A-HJ-NP-Za-km-z]{6}$/)
  expect(long!.length).toBeGreaterThanOrEqual(24)
  expect(made.hash).toBe(createHash('sha256').update(long!).digest('hex'))
  expect(await hashPak(made.pak)).toBe(made.hash)
})

test('a thousand generated PAKs are different', async () => {
  const keys = await Promise.all(Array.from({ length: 1000 }, () => generatePak()))
  expect(new Set(keys.map(({ hash }) => hash)).size).toBe(1000)
})

test.each([
  ['', ''],
  ['00', '1'],
  ['0000', '11'],
  ['61', '2g'],
  ['626262', 'a3gV'],
  ['636363', 'aPEr'],
  ['73696d706c792061206c6f6e6720737472696e67', '2cFupjhnEsSn59qHXstmK2ffpLv2'],
  ['00eb15231dfceb60925886b67d065299925915aeb172c06647', '1NS17iag9jJgTHD1VXjvLCEnZuQ3rJDE9L'],
])('base58 of %s is %s', (hex, text) => {
  expect(toBase58(Uint8Array.from(Buffer.from(hex, 'hex')))).toBe(text)
})

test.each(['', 'brokkr_BRabc_x', 'brokkr_BR000000_1111111111111111', 'other_BR123456_1111111111111111'])('%j is no key', async (text) => {
  expect(await hashPak(text)).toBeNull()
})

test('a PAK follows the form of the settings, and is no PAK in another form', async () => {
  const form = { prefix: 'acme', short_token_prefix: 'K', short_token_length: 12, long_token_length: 32 }
  const made = await generatePak(form)
  expect(made.pak).toMatch(/^acme_K[1-9A-HJ-NP-Za-km-z]{11}_[1-9A-HJ-NP-Za-km-z]{40,44}$/)
  expect([await hashPak(made.pak, form), await hashPak(made.pak)]).toEqual([made.hash, null])
})

test('the token of a sign-in link has 192 bits, and its hash is that of the long part', async () => {
  const { token, short, hash } = await generateLoginToken()
  const long = token.split('-')[3]!
  expect(token).toBe(`one-time-${short}-${long}`)
  expect(long.length).toBeGreaterThanOrEqual(24)
  expect(hash).toBe(createHash('sha256').update(long).digest('hex'))
})
