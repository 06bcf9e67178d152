import { expect, test } from 'vitest'
import { splitOutput } from './output.ts'

test('output is split at characters in order, and only the end of too much output is sent', () => {
  const text = `begin${'ü€😀'.repeat(60_000)}end`
  const pieces = splitOutput(text, 2)
  const joined = pieces.map((piece) => piece.text).join('')
  expect(text.endsWith(joined)).toBe(true)
  expect([joined.endsWith('end'), joined.isWellFormed(), joined.includes('\uFFFD')]).toEqual([true, true, false])
  expect(Buffer.byteLength(joined)).toBeLessThanOrEqual(256 * 1024)
  expect(Buffer.byteLength(joined)).toBeGreaterThan(256 * 1024 - 8)
  let offset = 0
  for (const piece of pieces) {
    expect([piece.offset, piece.attempt]).toEqual([offset, 2])
    expect(Buffer.byteLength(piece.text)).toBeLessThanOrEqual(64 * 1024)
    offset += Buffer.byteLength(piece.text)
  }
  expect(splitOutput('', 1)).toEqual([])
  expect(splitOutput('short', 1)).toEqual([{ attempt: 1, offset: 0, text: 'short' }])
})
