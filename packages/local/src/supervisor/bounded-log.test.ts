import { readFileSync, rmSync, statSync, writeFileSync, writeSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { tempDir } from '../test-parts/temp-dir.ts'
import { openBoundedLog } from './bounded-log.ts'

test('a reopened log is appended to, and its tail starts at this process', () => {
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

test('trim copies a large log to a second file and truncates it', () => {
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

test('trim ignores a deleted log', () => {
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
