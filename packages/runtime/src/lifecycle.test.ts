import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import { createLifecycle, type Exits } from './lifecycle.ts'
import { createLog } from './logging/log.ts'
import { startChild } from './test-parts/child.ts'

function setup(graceMs = 10_000) {
  const clock = manualClock()
  const lines: string[] = []
  const log = createLog({ name: 'test', destination: { write: (line) => lines.push(line) } })
  const listeners = new Map<string, (subject: unknown) => void>()
  const exits: number[] = []
  const process: Exits = { on: (event, listener) => listeners.set(event, listener), exit: (code) => exits.push(code) }
  const lifecycle = createLifecycle({ log, clock, process }, { graceMs })
  return {
    clock,
    lifecycle,
    exits,
    raise: (event: string, subject?: unknown) => listeners.get(event)?.(subject),
    lines: () => lines.map((line) => JSON.parse(line) as object),
  }
}

test('closes in reverse order of opening, one after the other, and logs each with its time', async () => {
  const { lifecycle, clock, lines } = setup()
  const order: string[] = []
  lifecycle.onClose('pool', () => void order.push('pool'))
  lifecycle.onClose('server', async () => {
    await clock.sleep(250)
    order.push('server')
  })
  const closing = lifecycle.close('test')
  expect(lifecycle.signal.aborted).toBe(true)
  await clock.advance(250)
  await closing
  expect(order).toEqual(['server', 'pool'])
  expect(lines()).toMatchObject([
    { msg: 'stopping', reason: 'test' },
    { msg: 'closed', part: 'server', ms: 250 },
    { msg: 'closed', part: 'pool', ms: 0 },
    { msg: 'stopped', exit_code: 0 },
  ])
})

test('a failed close is logged and does not stop the others', async () => {
  const { lifecycle, lines } = setup()
  const order: string[] = []
  lifecycle.onClose('a', () => void order.push('a'))
  lifecycle.onClose('b', () => Promise.reject(new Error('b failed')))
  lifecycle.onClose('c', () => {
    throw new Error('c failed')
  })
  await lifecycle.close('test')
  expect(order).toEqual(['a'])
  expect(lines()).toMatchObject([
    {},
    { msg: 'closing failed', part: 'c' },
    { part: 'b', error: { message: 'b failed' } },
    { msg: 'closed', part: 'a' },
    { exit_code: 1 },
  ])
})

test('one that hangs leaves the others a rest of the grace', async () => {
  const { lifecycle, clock, lines } = setup(10_000)
  const order: string[] = []
  lifecycle.onClose('a', async () => {
    await clock.sleep(300)
    order.push('a')
  })
  lifecycle.onClose('b', () => new Promise(() => {}))
  const closing = lifecycle.close('test')
  await clock.advance(10_000)
  await closing
  expect(order).toEqual(['a'])
  expect(lines()).toMatchObject([
    {},
    { msg: 'did not close in time', part: 'b', ms: 9_000 },
    { msg: 'closed', part: 'a', ms: 300 },
    { exit_code: 1 },
  ])
})

test('closing everything never takes longer than the grace', async () => {
  const { lifecycle, clock } = setup(10_000)
  let begun = 0
  for (let n = 0; n < 20; n += 1) {
    lifecycle.onClose(`part ${n}`, () => {
      begun += 1
      return new Promise(() => {})
    })
  }
  const closing = lifecycle.close('test')
  await clock.advance(10_000)
  await closing
  expect(begun).toBe(20)
})

test('a second close waits for the first and closes nothing again', async () => {
  const { lifecycle } = setup()
  let count = 0
  lifecycle.onClose('a', () => void (count += 1))
  await Promise.all([lifecycle.close('one'), lifecycle.close('two'), lifecycle.closed])
  expect(count).toBe(1)
})

test('a resource registered during or after close is closed as well', async () => {
  const { lifecycle } = setup()
  const order: string[] = []
  lifecycle.onClose('a', () => {
    order.push('a')
    lifecycle.onClose('late', () => void order.push('late'))
  })
  await lifecycle.close('test')
  lifecycle.onClose('too late', () => void order.push('too late'))
  expect(order).toEqual(['a', 'late', 'too late'])
})

test.each([
  ['a signal', ['SIGTERM'], [0]],
  ['the other signal', ['SIGINT'], [0]],
  ['a bug nobody caught', ['uncaughtException'], [1]],
])('%s closes and exits', async (_what, events, codes) => {
  const { lifecycle, raise, exits } = setup()
  lifecycle.listenForSignals()
  for (const event of events) raise(event, new Error('bug'))
  await lifecycle.closed
  await Promise.resolve()
  expect(exits).toEqual(codes)
})

test('a second signal exits at once', () => {
  const { lifecycle, raise, exits } = setup()
  lifecycle.onClose('hangs', () => new Promise(() => {}))
  lifecycle.listenForSignals()
  raise('SIGTERM')
  expect(exits).toEqual([])
  raise('SIGINT')
  expect(exits).toEqual([1])
})

test('a real process: one SIGTERM closes all and exits 0', async () => {
  const child = startChild('lifecycle-child.ts', ['well'])
  await child.printed('"ready"')
  child.process.kill('SIGTERM')
  const { code, stdout } = await child.ended
  expect(code).toBe(0)
  expect(stdout.match(/"(aborted|last opened|middle|first opened|stopped)"/g)).toEqual([
    '"aborted"',
    '"last opened"',
    '"middle"',
    '"first opened"',
    '"stopped"',
  ])
})

test('a real process: the second signal exits 1 at once', async () => {
  const child = startChild('lifecycle-child.ts', ['hangs', '600000'])
  await child.printed('"ready"')
  child.process.kill('SIGTERM')
  await child.printed('"last opened"')
  child.process.kill('SIGTERM')
  const { code, signal } = await child.ended
  expect({ code, signal }).toEqual({ code: 1, signal: null })
})

test('a real process: a closing that hangs ends with the grace and exit 1, the rest closed', async () => {
  const child = startChild('lifecycle-child.ts', ['hangs', '300'])
  await child.printed('"ready"')
  child.process.kill('SIGINT')
  const { code, stdout } = await child.ended
  expect(code).toBe(1)
  expect(stdout).toMatch(/"middle".*did not close in time/)
  expect(stdout).toMatch(/"first opened".*"closed"/)
})

test('a real process: a failing closing and a forgotten rejection exit 1 and leak nothing', async () => {
  const failing = startChild('lifecycle-child.ts', ['fails'])
  const forgetful = startChild('lifecycle-child.ts', ['bug'])
  await failing.printed('"ready"')
  failing.process.kill('SIGTERM')
  const ends = await Promise.all([failing.ended, forgetful.ended])
  expect(ends.map(({ code }) => code)).toEqual([1, 1])
  expect(ends[1]?.stdout).toMatch(/uncaught error/)
  expect(ends.map(({ stdout, stderr }) => stdout + stderr).join('')).not.toContain('S3CR3T')
})
