import { waitFor } from '@brokkr/testing/wait-for.ts'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { runScript } from '../test-parts/run-script.ts'
import { isSameProcess, killRecorded, parseStat, readStartTime } from './process-table.ts'

test('readStartTime is stable for one process and differs between processes', async () => {
  const other = runScript(`say('up'); await ended()`)
  await other.line()
  const own = readStartTime(process.pid)
  expect(own).toBeTruthy()
  expect(readStartTime(process.pid)).toBe(own)
  expect(isSameProcess(process.pid, own ?? '')).toBe(true)
  expect(isSameProcess(other.pid, own ?? '')).toBe(false)
})

test.each([0, -1, 1.5, Number.NaN, 2 ** 31])('readStartTime of pid %d is undefined', (pid) => {
  expect(readStartTime(pid)).toBeUndefined()
  expect(isSameProcess(pid, '')).toBe(false)
})

test('killRecorded does not signal a pid with another start time', async () => {
  const other = runScript(`say('up'); await ended(); say('still here')`)
  await other.line()
  expect(killRecorded({ pid: other.pid, startTime: 'another life' }, 'SIGKILL')).toBe(false)
  expect(killRecorded({ pid: other.pid, startTime: '' }, 'SIGKILL')).toBe(false)
  other.release()
  expect(await other.line()).toBe('still here')
})

test('killRecorded ends the recorded process', async () => {
  const other = runScript(`say('up'); await ended()`)
  await other.line()
  const recorded = { pid: other.pid, startTime: readStartTime(other.pid) ?? '' }
  expect(killRecorded(recorded, 'SIGKILL')).toBe(true)
  await waitFor('the process to be gone', () => !isSameProcess(recorded.pid, recorded.startTime))
  expect(killRecorded(recorded, 'SIGKILL')).toBe(false)
})

test('isSameProcess is false for a zombie', async () => {
  // A parent that is stopped cannot collect its dead child, so the child stays a zombie.
  const parent = runScript(`
    import { spawn } from 'node:child_process'
    say(String(spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)']).pid)); await ended()`)
  const zombie = Number(await parent.line())
  const startTime = readStartTime(zombie) ?? ''
  expect(isSameProcess(zombie, startTime)).toBe(true)
  parent.kill('SIGSTOP')
  process.kill(zombie, 'SIGKILL')
  await waitFor('the zombie to count as gone', () => readStartTime(zombie) === undefined)
  expect(process.kill(zombie, 0)).toBe(true)
  expect(isSameProcess(zombie, startTime)).toBe(false)
})

test('parseStat accepts every program name', () => {
  fc.assert(
    fc.property(fc.string({ maxLength: 15 }), (name) => {
      const line = `42 (${name}) S 1 42 42 0 -1 4194304 100 0 0 0 1 2 0 0 20 0 1 0 987654 1000 10 18446744073709551615`
      expect(parseStat(line)).toEqual({ state: 'S', ticks: '987654' })
    }),
  )
})

test.each(['', 'nonsense', '42 (sh) S 1'])('parseStat of %j is undefined', (line) => {
  expect(parseStat(line)).toBeUndefined()
})
