import { generatePak } from '@brokkr/contract/auth/pak.ts'
import { expect, test } from 'vitest'
import { containsCredential, parseCredential, parsePak } from './pak-header.ts'

const pak = 'brokkr_BRabc123_abcdefghijkmnopqrstuvwxyz'
const parts = { short: 'BRabc123', long: 'abcdefghijkmnopqrstuvwxyz' }

test.each([
  ['brokkr_BRabc123', 'two parts'],
  [`${pak}_x`, 'four parts'],
  [`x${pak}`, 'another prefix'],
  ['Brokkr_BRabc123_abcdefghijkmnopqrstuvwxyz', 'a capital in the prefix'],
  ['brokkr_BRabc12_abcdefghijkmnopqrstuvwxyz', 'a short token of seven'],
  ['brokkr_BRabc1234_abcdefghijkmnopqrstuvwxyz', 'a short token of nine'],
  ['brokkr_XXabc123_abcdefghijkmnopqrstuvwxyz', 'a short token without BR'],
  ['brokkr_BRabc0O3_abcdefghijkmnopqrstuvwxyz', 'letters that base58 leaves out'],
  ['brokkr_BRabc123_abcdefghijkmnop', 'a long token of fifteen'],
  [`brokkr_BRabc123_${'a'.repeat(129)}`, 'a long token of 129'],
  ['brokkr_BRabc123_abcdefghijklmnopqrstuvwxyz', 'an l in the long token'],
  [`${pak}\n`, 'a line feed behind it'],
  [`${pak}\u0000`, 'a NUL behind it'],
  ['', 'nothing'],
])('%j is no key: %s', (text) => {
  expect(parsePak(text)).toBeNull()
})

test.each([16, 33, 128])('a long token of %i characters is one', (length) => {
  expect(parsePak(`brokkr_BRabc123_${'a'.repeat(length)}`)?.long).toHaveLength(length)
})

test('every generated PAK is parsed', async () => {
  const made = await Promise.all(Array.from({ length: 200 }, generatePak))
  expect(made.filter(({ pak: text, short }) => parsePak(text)?.short !== short)).toEqual([])
})

test.each([
  [{ authorization: `Bearer ${pak}` }],
  [{ authorization: `bearer ${pak}` }],
  [{ authorization: `BEARER     ${pak}` }],
  [{ authorization: `  Bearer ${pak}  ` }],
  [{ authorization: pak }],
])('%j identifies the caller', (headers) => {
  expect(parseCredential(headers)).toEqual({ is: 'pak', pak: parts, generatorsOnly: false })
})

test('X-Generator-Key identifies generators only', () => {
  expect(parseCredential({ 'x-generator-key': pak })).toEqual({ is: 'pak', pak: parts, generatorsOnly: true })
})

test.each([
  [{ authorization: `Basic ${pak}` }, 'malformed'],
  [{ authorization: `Token ${pak}` }, 'malformed'],
  [{ authorization: `Bearer Bearer ${pak}` }, 'malformed'],
  [{ authorization: `Bearer${pak}` }, 'malformed'],
  [{ authorization: 'Bearer' }, 'malformed'],
  [{ authorization: `Bearer ${' '.repeat(10_000)}${pak}` }, 'malformed'],
  [{ authorization: 'Bearer nonsense', 'x-generator-key': pak }, 'malformed'],
  [{ authorization: '' }, 'malformed'],
  [{ 'x-generator-key': `Bearer ${pak}` }, 'malformed'],
  [{ cookie: pak }, 'missing'],
  [{}, 'missing'],
])('%j is %s', (headers, is) => {
  expect(parseCredential(headers as Record<string, string>)).toEqual({ is })
})

test.each([
  `pak=${pak}`,
  `token=${encodeURIComponent(pak)}`,
  `x=${pak.replaceAll('_', '%5F')}`,
  `a=%zz&b=${pak.replaceAll('_', '%5f')}`,
  'join=jt_abc123_abcdefghijkmnopqrstuvwxyz',
  'token=one-time-abc123-abcdefghijkmnopqrstuvwxyz',
])('the query %s holds a credential', (query) => {
  expect(containsCredential(query)).toBe(true)
})

test.each(['', 'name=brokkr_', 'name=brokkr_BRabc123_short', 'jt=jt_x_y', 'cursor=abcdefghijkmnopqrstuvwxyz'])(
  'the query %j holds none',
  (query) => {
    expect(containsCredential(query)).toBe(false)
  },
)
