import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { hashPak, makePak, toBase58 } from './pak.ts'

test('a key has three parts, 192 bits, and the hash of its long part', async () => {
  const made = await makePak()
  const [prefix, short, long] = made.pak.split('_')
  expect([prefix, short]).toEqual(['brokkr', made.short])
  expect(short).toMatch(/^BR[1-9A-HJ-NP-Za-km-z]{6}$/)
  expect(long!.length).toBeGreaterThanOrEqual(24)
  expect(made.hash).toBe(createHash('sha256').update(long!).digest('hex'))
  expect(await hashPak(made.pak)).toBe(made.hash)
})

test('a thousand keys are a thousand different keys', async () => {
  const keys = await Promise.all(Array.from({ length: 1000 }, () => makePak()))
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
