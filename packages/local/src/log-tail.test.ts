import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { readTail } from './log-tail.ts'
import { tempDir } from './test-parts/temp-dir.ts'

test('the last lines are read, without the empty end', () => {
  const file = join(tempDir(), 'a.log')
  writeFileSync(file, 'one\ntwo\nthree\n\n')
  expect(readTail(file)).toBe('one\ntwo\nthree')
  expect(readTail(file, { lines: 2 })).toBe('two\nthree')
})

test('earlier lives of the log can be left out', () => {
  const file = join(tempDir(), 'a.log')
  writeFileSync(file, 'old\n')
  expect(readTail(file, { from: 4 })).toBe('')
  appendFileSync(file, 'new\n')
  expect(readTail(file, { from: 4 })).toBe('new')
  expect(readTail(file, { from: 400 })).toBe('')
})

test('of a huge log a bounded piece is read', () => {
  const file = join(tempDir(), 'a.log')
  writeFileSync(file, `${'x'.repeat(1_000_000)}\nend\n`)
  expect(readTail(file, { lines: 1 })).toBe('end')
  expect(readTail(file, { lines: 10 }).length).toBeLessThan(70_000)
})

test('a log that is not there is empty', () => {
  expect(readTail(join(tempDir(), 'none'))).toBe('')
})
