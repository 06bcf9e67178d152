import { readFileSync, rmSync, statSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { openBoundedLog } from './bounded-log.ts'
import { tempDir } from './test-parts/temp-dir.ts'

test('a log goes on where it ended, and its tail begins with this life', () => {
  const file = join(tempDir(), 'logs', 'a.log')
  openBoundedLog(file, 100).close()
  writeFileSync(file, 'old\n')
  const log = open(file, 100)
  writeSync(log.fd, 'new\n')
  expect(log.start()).toBe(4)
  expect(log.tail(20)).toBe('new')
  expect(readFileSync(file, 'utf8')).toBe('old\nnew\n')
  expect(statSync(file).mode & 0o777).toBe(0o600)
})

test('a log that has grown large is emptied while it is written to, and its text is kept beside it', () => {
  const file = join(tempDir(), 'a.log')
  const log = open(file, 10)
  writeSync(log.fd, 'small\n')
  log.trim()
  expect(readFileSync(file, 'utf8')).toBe('small\n')
  writeSync(log.fd, 'larger\n')
  log.trim()
  writeSync(log.fd, 'next\n')
  expect(readFileSync(file, 'utf8')).toBe('next\n')
  expect(log.tail(20)).toBe('next')
  expect(readFileSync(`${file}.1`, 'utf8')).toBe('small\nlarger\n')
})

test('a log that was removed is no reason to fail', () => {
  const file = join(tempDir(), 'a.log')
  const log = open(file, 10)
  rmSync(file)
  log.trim()
  expect(log.tail(1)).toBe('')
})

function open(file: string, bytesMax: number) {
  const log = openBoundedLog(file, bytesMax)
  onTestFinished(() => log.close())
  return log
}
