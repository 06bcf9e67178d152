import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { tempDir } from '../test-parts/temp-dir.ts'
import { readTail } from './log-tail.ts'

test('readTail returns the last lines without trailing empty lines', () => {
  const file = join(tempDir(), 'a.log')
  writeFileSync(file, 'one\ntwo\nthree\n\n')
  expect(readTail(file)).toBe('one\ntwo\nthree')
  expect(readTail(file, { lines: 2 })).toBe('two\nthree')
})

test('readTail skips text before the offset', () => {
  const file = join(tempDir(), 'a.log')
  writeFileSync(file, 'old\n')
  expect(readTail(file, { from: 4 })).toBe('')
  appendFileSync(file, 'new\n')
  expect(readTail(file, { from: 4 })).toBe('new')
  expect(readTail(file, { from: 400 })).toBe('')
})

test('readTail reads a bounded part of a large log', () => {
  const file = join(tempDir(), 'a.log')
  writeFileSync(file, `${'x'.repeat(1_000_000)}\nend\n`)
  expect(readTail(file, { lines: 1 })).toBe('end')
  expect(readTail(file, { lines: 10 }).length).toBeLessThan(70_000)
})

test('readTail of a missing file is empty', () => {
  expect(readTail(join(tempDir(), 'none'))).toBe('')
})
