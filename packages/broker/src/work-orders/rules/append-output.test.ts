import { expect, test } from 'vitest'
import { appendOutput, outputBytesMax } from './append-output.ts'

const stored = { attempt: 1, start: 10, end: 13, text: 'abc' }

test.each([
  ['the first piece', null, { attempt: 1, offset: 0, text: 'ab' }, { attempt: 1, start: 0, end: 2, text: 'ab' }],
  ['the next piece', stored, { attempt: 1, offset: 13, text: 'd' }, { attempt: 1, start: 10, end: 14, text: 'abcd' }],
  ['a repeated piece', stored, { attempt: 1, offset: 11, text: 'bc' }, null],
  ['a longer repeated piece', stored, { attempt: 1, offset: 11, text: 'bcd' }, { attempt: 1, start: 10, end: 14, text: 'abcd' }],
  ['a piece after a gap', stored, { attempt: 1, offset: 20, text: 'x' }, { attempt: 1, start: 20, end: 21, text: 'x' }],
  ['a new attempt', stored, { attempt: 2, offset: 0, text: 'x' }, { attempt: 2, start: 0, end: 1, text: 'x' }],
  ['an empty piece', null, { attempt: 1, offset: 0, text: '' }, null],
])('output after %s', (_, before, piece, expected) => {
  expect(appendOutput(before, piece)).toEqual(expected)
})

test('only the end of a long output is stored, from the start of a character', () => {
  const before = appendOutput(null, { attempt: 1, offset: 0, text: 'ü'.repeat(outputBytesMax / 2) })
  const after = appendOutput(before, { attempt: 1, offset: outputBytesMax, text: 'x' })
  expect(after).toMatchObject({ start: 2, end: outputBytesMax + 1 })
  expect([after!.text.startsWith('üü'), after!.text.endsWith('üx'), after!.text.includes('\uFFFD')]).toEqual([true, true, false])
})
