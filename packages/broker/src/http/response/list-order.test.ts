import fc from 'fast-check'
import { expect, test } from 'vitest'
import { byName, highestSequence, newestFirst, oldestFirst, readListCursor, writeListCursor } from './list-order.ts'

const id = '0a000000-0000-4000-8000-000000000001'
const at = '2026-01-02T03:04:05.000006Z'
const list = ['listAgents', null, { name: 'x' }, null]
const refused = expect.objectContaining({ code: 'invalid_cursor' }) as unknown
const attempt = (text: string, order: typeof byName | typeof newestFirst = byName, of: unknown[] = list) => {
  try {
    return readListCursor<readonly (string | number)[]>(of, text, order)
  } catch (error) {
    return error
  }
}

test('a list cursor returns its key for every name', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.uuid(), (name, uuid) => {
      expect(attempt(writeListCursor(list, [name, uuid]))).toEqual([name, uuid])
    }),
  )
  expect(readListCursor(list, writeListCursor(list, [7]), highestSequence)).toEqual([7])
  expect(readListCursor(list, writeListCursor(list, [at, id]), oldestFirst)).toEqual([at, id])
})

test.each([
  ['of another list', ['listStacks', null, { name: 'x' }, null]],
  ['with other filters', ['listAgents', null, { name: 'y' }, null]],
  ['under another path', ['listAgents', { id }, { name: 'x' }, null]],
  ['of another caller', ['listAgents', null, { name: 'x' }, id]],
])('a cursor %s is refused', (_, other) => {
  expect(attempt(writeListCursor(other, ['a', id]))).toEqual(refused)
})

test('a list cursor of another order or invalid text is refused', () => {
  expect(attempt(writeListCursor(list, ['a', id]), newestFirst)).toEqual(refused)
  for (const key of [['a'], ['a', 'no id'], [1, id], ['a', id, 'b'], []]) expect(attempt(writeListCursor(list, key))).toEqual(refused)
  for (const text of ['', 'x', '%', 'W10', 'e30', 'bnVsbA', '\u0000', 'a'.repeat(2048)]) expect(attempt(text), text).toEqual(refused)
})

test('a cursor that was changed anywhere is refused', () => {
  const text = writeListCursor(list, ['name', id])
  fc.assert(
    fc.property(fc.nat(text.length - 1), fc.constantFrom('A', 'B', 'x', 'z', '0', '9', '-', '_'), (place, letter) => {
      const changed = text.slice(0, place) + letter + text.slice(place + 1)
      // The last letter holds bits that nobody reads.
      const isSame = Buffer.from(changed, 'base64url').equals(Buffer.from(text, 'base64url'))
      expect(attempt(changed)).toEqual(isSame ? ['name', id] : refused)
    }),
  )
})
