import fc from 'fast-check'
import { expect, test } from 'vitest'
import { LineSplitter, LineTooLong } from './line-splitter.ts'

test('lines are the same for any split of the bytes', () => {
  const line = fc.string({ unit: 'grapheme' }).map((text) => text.replaceAll(/[\n\r]/g, ''))
  fc.assert(
    fc.property(fc.array(line), fc.array(fc.nat(50)), (lines, cuts) => {
      const bytes = Buffer.from(lines.map((text) => `${text}\n`).join(''))
      const splitter = new LineSplitter(10_000)
      const out: string[] = []
      let at = 0
      for (const size of cuts) {
        out.push(...splitter.push(bytes.subarray(at, at + size)))
        at += size
      }
      out.push(...splitter.push(bytes.subarray(at)))
      expect(out).toEqual(lines.filter((text) => text !== ''))
      expect(splitter.pendingBytes).toBe(0)
    }),
  )
})

test('a line above the limit is refused, in one chunk or many', () => {
  expect(() => new LineSplitter(100).push(Buffer.alloc(101, 'x'))).toThrow(LineTooLong)
  expect(() => new LineSplitter(100).push(Buffer.from(`${'x'.repeat(101)}\n`))).toThrow(LineTooLong)
  const splitter = new LineSplitter(100)
  splitter.push(Buffer.alloc(60, 'x'))
  expect(() => splitter.push(Buffer.alloc(60, 'x'))).toThrow(LineTooLong)
})

test('bytes after the last line end are pending', () => {
  const splitter = new LineSplitter(100)
  expect(splitter.push(Buffer.from('a\nb'))).toEqual(['a'])
  expect(splitter.pendingBytes).toBe(1)
})
