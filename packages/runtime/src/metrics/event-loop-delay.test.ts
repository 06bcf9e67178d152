import { createHistogram } from 'node:perf_hooks'
import { manualClock } from '@brokkr/testing/clock.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { readShare, watchEventLoopDelay } from './event-loop-delay.ts'
import { createMetrics } from './metrics.ts'

test('a blocked loop shows, stays for one more window, and is then forgotten', async () => {
  const clock = manualClock()
  const metrics = createMetrics()
  const delay = watchEventLoopDelay({ clock, metrics }, { windowMs: 1_000 })
  try {
    // Each block is followed by a turn of the loop, in which Node notes how late it was.
    await waitFor('the delay to be noticed', async () => {
      block(200)
      await new Promise((resolve) => setTimeout(resolve, 20))
      return delay.p99Ms() >= 100
    })
    expect(await metrics.text()).toMatch(/brokkr_event_loop_delay_seconds 0\.[1-9]/)
    await clock.advance(1_000)
    expect(delay.p99Ms()).toBeGreaterThanOrEqual(100)
    expect(delay.p99Ms()).toBeGreaterThanOrEqual(100)
    await waitFor('it to be forgotten', async () => {
      await clock.advance(1_000)
      return delay.p99Ms() < 100
    })
  } finally {
    delay.stop()
  }
})

test.each([
  { share: 1, counts: true },
  { share: 0.6, counts: true },
  { share: 0.4, counts: false },
  { share: 0, counts: false },
])('a late loop whose thread used $share of a CPU counts as its own delay: $counts', async ({ share, counts }) => {
  const delay = watchEventLoopDelay({ clock: manualClock(), readThreadCpuMs: () => performance.now() * share })
  try {
    await waitFor('the delay to be noticed', async () => {
      block(200)
      await new Promise((resolve) => setTimeout(resolve, 20))
      return delay.p99Ms() >= 100
    })
    expect(delay.ownP99Ms() >= 100).toBe(counts)
  } finally {
    delay.stop()
  }
})

test.each([
  { turns: 1, late: 1, shows: false },
  { turns: 2, late: 1, shows: false },
  { turns: 2, late: 2, shows: true },
  { turns: 10, late: 1, shows: false },
  { turns: 10, late: 2, shows: true },
  { turns: 99, late: 1, shows: false },
  { turns: 99, late: 2, shows: true },
  { turns: 500, late: 1, shows: false },
  { turns: 500, late: 4, shows: false },
  { turns: 500, late: 6, shows: true },
])('$late late of $turns turns counts as late: $shows', ({ turns, late, shows }) => {
  const histogram = createHistogram()
  for (let turn = 0; turn < turns; turn += 1) histogram.record(turn < late ? 300 : 10)
  const share = readShare(histogram.count)
  expect(share > 0 && histogram.percentile(share) > 200).toBe(shows)
})

function block(ms: number): void {
  const untilMs = performance.now() + ms
  while (performance.now() < untilMs);
}
