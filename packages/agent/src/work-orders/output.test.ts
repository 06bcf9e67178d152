import { expect, test } from 'vitest'
import { piecesOf } from './output.ts'

test('output goes in pieces of whole characters that follow each other, and of too much only the end', () => {
  const text = `begin${'ü€😀'.repeat(60_000)}end`
  const pieces = piecesOf(text, 2)
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
  expect(piecesOf('', 1)).toEqual([])
  expect(piecesOf('short', 1)).toEqual([{ attempt: 1, offset: 0, text: 'short' }])
})
