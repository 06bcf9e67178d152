import { expect, test } from 'vitest'
import { DriftBackoff } from './drift-backoff.ts'

const change = (path = '/data/x', name = 'a') => ({ group: '', kind: 'ConfigMap', namespace: 'x', name, path, manager: 'rival' })
const key = 'ConfigMap|x|a'
const minute = 60_000

test('five heals within the window start a backoff that doubles to half the window', () => {
  const fights = new DriftBackoff(() => 10 * minute)
  const pauses: number[] = []
  let nowMs = 0
  for (let n = 0; n < 16; n++) {
    fights.healed('s', [change()], nowMs)
    const restMs = fights.restMs('s', key, nowMs)
    pauses.push(restMs / 1000)
    nowMs += Math.max(1_000, restMs)
  }
  expect(pauses).toEqual([0, 0, 0, 0, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300, 300])
  expect(fights.describe('s', nowMs)).toContain('/data/x of ConfigMap x/a is set again and again by rival')
  // The other side has let go: after the window nothing is left of it.
  nowMs += 10 * minute
  expect([fights.describe('s', nowMs), fights.restMs('s', key, nowMs)]).toEqual([null, 0])
  fights.healed('s', [change()], nowMs)
  expect(fights.restMs('s', key, nowMs)).toBe(0)
})

test('the backoff delays only the contested member', () => {
  const fights = new DriftBackoff(() => 10 * minute)
  for (let n = 0; n < 6; n++) fights.healed('s', [change(), ...(n === 0 ? [change('/data/x', 'b')] : [])], n * 1_000)
  expect([...fights.listBackedOff('s', 6_000)]).toEqual([key])
  expect(fights.restMs('s', 'ConfigMap|x|b', 6_000)).toBe(0)
  expect(fights.listBackedOff('other', 6_000).size).toBe(0)
})

test('backoff entries are bounded and removed with their stack', () => {
  const fights = new DriftBackoff(() => 10 * minute)
  fights.healed(
    's',
    Array.from({ length: 2_000 }, (_, n) => change(`/data/${n}`)),
    0,
  )
  expect(fights.size).toBeLessThanOrEqual(500)
  fights.forget('s')
  expect(fights.size).toBe(0)
})
