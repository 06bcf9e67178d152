import { ApiError } from '@brokkr/contract/errors.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import { createOverload, decideOverloadLevel, overloadLimits, type Strain } from './overload.ts'
import { call, startTestServer } from './server.fixture.ts'

function setup() {
  const clock = manualClock()
  const load = { delay: 0, wait: 0 }
  const metrics = createMetrics()
  const overload = createOverload({ clock, metrics, load: { delayMs: () => load.delay, poolWaitMs: () => load.wait } })
  const isRefused = (check: () => void): boolean => {
    try {
      check()
      return false
    } catch (error) {
      const known = error as ApiError
      expect([known instanceof ApiError, known.code, known.status]).toEqual([true, 'overloaded', 503])
      expect(known.retryAfterSeconds).toBeGreaterThanOrEqual(1)
      expect(known.retryAfterSeconds).toBeLessThanOrEqual(5)
      return true
    }
  }
  const door = (isStream = false) => isRefused(() => overload.checkDoor({ isStream }))
  const caller = (credential: string, isWrite = false) => isRefused(() => overload.checkCaller({ credential, isWrite, isStream: false }))
  return { clock, load, metrics, door, caller }
}

test('a caller above its share is not refused without overload', async () => {
  const { caller, door } = setup()
  for (let n = 0; n < 1_000; n += 1) expect([door(), caller('a'), caller('a', true)]).toEqual([false, false, false])
})

test.each<['delay' | 'wait', number]>([
  ['delay', overloadLimits.delayMs + 1],
  ['wait', overloadLimits.poolWaitMs + 1],
])('a %s beyond its limit refuses those above their share first, then every call, streams last', async (what, value) => {
  const { clock, load, caller, door } = setup()
  load[what] = value
  await clock.advance(100)
  expect(Array.from({ length: 250 }, () => caller('heavy')).filter(Boolean)).toHaveLength(50)
  expect(Array.from({ length: 60 }, () => caller('writer', true)).filter(Boolean)).toHaveLength(10)
  expect([caller('modest'), caller('modest', true), door()]).toEqual([false, false, false])
  await clock.advance(2_000)
  expect([door(), door(true)]).toEqual([true, false])
  load[what] = value * 4
  await clock.advance(100)
  expect([door(), door(true)]).toEqual([true, true])
  load[what] = 0
  await clock.advance(100)
  expect([door(), door(true), caller('heavy')]).toEqual([false, false, false])
})

test('a server with too many calls in progress refuses further calls until they have ended', async () => {
  const ending = Promise.withResolvers<void>()
  const handler = async ({ path }: { path: string }) => {
    if (path.endsWith('/agents')) await ending.promise
    return { agents: 1, stacks: 1 }
  }
  const server = await startTestServer({ overload: { callsInProgress: 3 }, handler })
  try {
    const waiting = Array.from({ length: 4 }, () => call(server, 'listAgents'))
    // Heavy callers alone are refused first, so this takes two seconds.
    await expect.poll(async () => (await call(server, 'getStack')).json?.code, { timeout: 20_000, interval: 100 }).toBe('overloaded')
    expect(await server.metrics.text()).toMatch(/^brokkr_http_calls_in_progress 4$/m)
    ending.resolve()
    await Promise.all(waiting)
    await expect.poll(async () => (await call(server, 'getStack')).json?.code, { timeout: 20_000, interval: 100 }).not.toBe('overloaded')
    expect(await server.metrics.text()).toMatch(/^brokkr_http_calls_in_progress 0$/m)
  } finally {
    await server.close()
  }
})

test.each<[number, number, Strain]>([
  [1, 9_999, 'none'],
  [1.01, 0, 'heavy callers'],
  [9, 1_999, 'heavy callers'],
  [1.01, 2_000, 'every call'],
  [4, 60_000, 'every call'],
  [4.1, 2_000, 'streams too'],
])('%s times the limit for %s ms: %s', (ratio, ms, level) => expect(decideOverloadLevel(ratio, ms)).toBe(level))

test('an overloaded server refuses requests before authentication and answers probes', async () => {
  const server = await startTestServer({ load: { delayMs: () => 10_000, poolWaitMs: () => 0 } })
  try {
    // The first look starts the time in which those who ask most are refused alone.
    await expect.poll(async () => (await call(server, 'listAgents')).json?.code, { timeout: 20_000, interval: 100 }).toBe('overloaded')
    const refused = await call(server, 'listAgents', { pak: null })
    expect([refused.status, refused.json?.code]).toEqual([503, 'overloaded'])
    expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200)
    expect((await fetch(`${server.url}/readyz`)).status).toBe(200)
    expect(await server.metrics.text()).toMatch(/brokkr_http_shed_total\{reason="streams too"\} [1-9]/)
  } finally {
    await server.close()
  }
})
