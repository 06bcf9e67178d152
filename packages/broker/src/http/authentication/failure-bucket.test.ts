import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import { createFailureBucket } from './failure-bucket.ts'

test('the failure limit refuses the 51st failure with a wait time', () => {
  const bucket = createFailureBucket({ clock: manualClock() })
  expect(Array.from({ length: 50 }, () => bucket.fail('a')).every((wait) => wait === 0)).toBe(true)
  expect(bucket.fail('a')).toBeGreaterThan(0)
  expect(bucket.fail('b')).toBe(0)
})

test('the failure limit refills ten a second up to fifty', async () => {
  const clock = manualClock()
  const bucket = createFailureBucket({ clock })
  const answered = () => Array.from({ length: 100 }, () => bucket.fail('a')).filter((wait) => wait === 0).length
  expect(answered()).toBe(50)
  await clock.advance(1_000)
  expect(answered()).toBe(10)
  await clock.advance(3_600_000)
  expect(answered()).toBe(50)
})

test('only so many addresses are remembered', () => {
  const bucket = createFailureBucket({ clock: manualClock() }, { burst: 1, addressesMax: 2 })
  expect(['a', 'b', 'c', 'a', 'a'].map((address) => bucket.fail(address) === 0)).toEqual([true, true, true, true, false])
})
