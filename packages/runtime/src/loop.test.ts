import { manualClock } from '@brokkr/testing/clock.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { createLog } from './logging/log.ts'
import { type Loop, type LoopOptions, nextTickMs, startLoop } from './loop.ts'
import { createMetrics } from './metrics/metrics.ts'

type Setup = Partial<Loop> & LoopOptions

/** A loop whose runs wait until the test lets them end. */
function setup({ jitter = 0, immediately, ...given }: Setup = {}) {
  const clock = manualClock()
  const metrics = createMetrics()
  const lines: string[] = []
  const log = createLog({ name: 'test', level: 'debug', destination: { write: (line) => lines.push(line) } })
  const runs: { signal: AbortSignal; end: () => void; fail: (error: Error) => void }[] = []
  const run: Loop['run'] = (signal) =>
    new Promise((resolve, reject) => runs.push({ signal, end: () => resolve({ done: 1 }), fail: reject }))
  const loop = startLoop(
    { clock, log, metrics },
    { name: 'cleanup', everyMs: 1_000, run, ...given },
    { jitter, ...(immediately ? { immediately } : {}) },
  )
  const settle = () => clock.advance(0)
  return { clock, metrics, lines, loop, runs, settle }
}

test('a loop runs at each tick and logs its counts', async () => {
  const { clock, loop, runs, lines, metrics, settle } = setup()
  await clock.advance(999)
  expect(runs).toHaveLength(0)
  await clock.advance(1)
  expect(runs).toHaveLength(1)
  await clock.advance(400)
  runs[0]?.end()
  await settle()
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ level: 'debug', msg: 'task ran', task: 'cleanup', ms: 400, done: 1, result: 'ok' })
  await clock.advance(600)
  expect(runs).toHaveLength(2)
  runs[1]?.end()
  await loop.stop()
  expect(await metrics.text()).toContain('brokkr_task_runs_total{task="cleanup",result="ok"} 2')
  expect(await metrics.text()).toContain('brokkr_task_duration_seconds_count{task="cleanup"} 2')
})

test('one run at a time: many wakes during a run lead to one more, directly after', async () => {
  const { loop, runs, settle } = setup()
  loop.wake()
  for (let n = 0; n < 10; n += 1) loop.wake()
  expect(runs).toHaveLength(1)
  runs[0]?.end()
  await settle()
  expect(runs).toHaveLength(2)
  runs[1]?.end()
  await settle()
  expect(runs).toHaveLength(2)
  await loop.stop()
})

test('a run longer than its interval is not overlapped, and the next tick runs', async () => {
  const { clock, loop, runs, settle } = setup()
  await clock.advance(1_000)
  await clock.advance(2_300)
  expect(runs).toHaveLength(1)
  runs[0]?.end()
  await settle()
  await clock.advance(699)
  expect(runs).toHaveLength(1)
  await clock.advance(1)
  expect(runs).toHaveLength(2)
  runs[1]?.end()
  await loop.stop()
})

test('a run that throws is logged and counted, and the loop continues', async () => {
  const { clock, loop, runs, lines, metrics, settle } = setup({ immediately: true })
  runs[0]?.fail(new Error('database away'))
  await settle()
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({
    level: 'error',
    msg: 'task failed',
    task: 'cleanup',
    error: { message: 'database away' },
  })
  expect(await metrics.text()).toContain('brokkr_task_runs_total{task="cleanup",result="failed"} 1')
  await clock.advance(1_000)
  expect(runs).toHaveLength(2)
  runs[1]?.end()
  await loop.stop()
})

test('a run that throws before its first await is caught as well', async () => {
  const { loop, lines, settle } = setup({
    immediately: true,
    run: () => {
      throw new TypeError('bug')
    },
  })
  await settle()
  expect(lines[0]).toContain('bug')
  await loop.stop()
})

test('stop aborts the run, waits for its end, and nothing begins afterwards', async () => {
  const { clock, loop, runs, metrics, lines } = setup({ immediately: true })
  let isStopped = false
  const stopping = loop.stop().then(() => (isStopped = true))
  expect(runs[0]?.signal.aborted).toBe(true)
  await clock.advance(5_000)
  expect(isStopped).toBe(false)
  runs[0]?.fail(runs[0].signal.reason as Error)
  await stopping
  loop.wake()
  loop.retime()
  await clock.advance(5_000)
  expect(runs).toHaveLength(1)
  expect(clock.waiting).toBe(0)
  expect(await metrics.text()).toContain('result="stopped"} 1')
  expect(lines.join('')).not.toContain('"error"')
})

test('stopping twice is fine, and before the first run too', async () => {
  const { loop, runs } = setup()
  await Promise.all([loop.stop(), loop.stop()])
  expect(runs).toHaveLength(0)
})

test('a changed interval takes effect by retime, a slower or faster one', async () => {
  let everyMs = 86_400_000
  const { clock, loop, runs } = setup({ everyMs: () => everyMs })
  await clock.advance(10_000)
  everyMs = 4_000
  loop.retime()
  await clock.advance(1_999)
  expect(runs).toHaveLength(0)
  await clock.advance(1)
  expect(runs).toHaveLength(1)
  runs[0]?.end()
  await loop.stop()
})

test('repeated retime calls do not delay the next run', async () => {
  const { clock, loop, runs } = setup({ jitter: 0.5 })
  for (let ms = 0; ms < 1_500 && runs.length === 0; ms += 10) {
    await clock.advance(10)
    loop.retime()
  }
  expect(runs).toHaveLength(1)
  runs[0]?.end()
  await loop.stop()
})

test('an interval that cannot be read keeps the last one', async () => {
  let read = () => 1_000
  const { clock, loop, runs, lines, settle } = setup({ everyMs: () => read() })
  read = () => Number.NaN
  await clock.advance(1_000)
  runs[0]?.end()
  await settle()
  expect(lines.join('')).toContain('task interval unreadable')
  await clock.advance(1_000)
  expect(runs).toHaveLength(2)
  runs[1]?.end()
  await loop.stop()
})

test('an interval that is no number is refused at the start', () => {
  expect(() => setup({ everyMs: Number.NaN })).toThrow('task cleanup: the interval is NaN')
})

test('an interval of Infinity runs only when woken', async () => {
  const { clock, loop, runs } = setup({ everyMs: Infinity })
  await clock.advance(10 ** 9)
  expect(runs).toHaveLength(0)
  loop.wake()
  expect(runs).toHaveLength(1)
  runs[0]?.end()
  await loop.stop()
})

test('jitter spreads the first tick over its share', async () => {
  const first: number[] = []
  for (let n = 0; n < 30; n += 1) {
    const { clock, loop, runs } = setup({ jitter: 0.1 })
    for (let ms = 0; ms < 1_100 && runs.length === 0; ms += 10) await clock.advance(10)
    first.push(clock.monotonicMs())
    runs[0]?.end()
    await loop.stop()
  }
  expect(Math.min(...first)).toBeGreaterThanOrEqual(900)
  expect(Math.max(...first)).toBeLessThanOrEqual(1_110)
  expect(new Set(first).size).toBeGreaterThan(3)
})

test('a wake inside a run is not lost', async () => {
  let count = 0
  const { loop } = setup({
    run: async () => {
      count += 1
      if (count < 5) loop.wake()
    },
  })
  loop.wake()
  await waitFor('five runs', () => count === 5)
  await loop.stop()
  expect(count).toBe(5)
})

test.each([
  [1_000, 0, 1_000],
  [1_000, 400, 600],
  [1_000, 2_300, 700],
  [Infinity, 10, Infinity],
])('every %d ms, %d ms after the start: the next tick is in %d ms', (everyMs, elapsedMs, expected) => {
  expect(nextTickMs(everyMs, elapsedMs)).toBe(expected)
})
