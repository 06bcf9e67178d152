import fc from 'fast-check'
import { expect, test } from 'vitest'
import { ConnectorError } from '../../connectors/connector.ts'
import { retryDelayMs, sinkRetry } from '../pipeline/retry.ts'
import { bisect } from './bisect.ts'
import { chooseReaction, toConnectorError } from './classify.ts'

const refusal = (recordIndex?: number) =>
  new ConnectorError({ class: 'record', type: 'constraint_violation', ...(recordIndex === undefined ? {} : { recordIndex }) }, 'no')

/** A sink that refuses parts with a bad record, and names it when it can. */
async function search(count: number, bad: ReadonlySet<number>, names: boolean) {
  const all = Array.from({ length: count }, (_, at) => at)
  const seen = { written: [] as number[], guilty: [] as number[], order: [] as number[], writes: 1 }
  const errorOf = (part: readonly number[]) => {
    const at = part.findIndex((one) => bad.has(one))
    return at < 0 ? undefined : refusal(names ? at : undefined)
  }
  const deps = {
    write: async (part: readonly number[]) => {
      seen.writes += 1
      const error = errorOf(part)
      if (error === undefined) {
        seen.written.push(...part)
        seen.order.push(...part)
      }
      return error === undefined ? undefined : { entries: part, error }
    },
    reject: async (one: number) => {
      seen.guilty.push(one)
      seen.order.push(one)
    },
  }
  await bisect(deps, all, errorOf(all) ?? refusal())
  return { ...seen, all }
}

test('bisection finds every bad record and writes the others once within its bound', async () => {
  const cases = fc.integer({ min: 1, max: 300 }).chain((count) =>
    fc.record({
      count: fc.constant(count),
      bad: fc.uniqueArray(fc.integer({ min: 0, max: count - 1 }), { minLength: 1, maxLength: 12 }),
      names: fc.boolean(),
    }),
  )
  await fc.assert(
    fc.asyncProperty(cases, async ({ count, bad, names }) => {
      const found = await search(count, new Set(bad), names)
      expect(found.guilty).toEqual(bad.toSorted((a, b) => a - b))
      expect(found.order).toEqual(found.all)
      expect(found.writes).toBeLessThanOrEqual(2 * bad.length * (Math.log2(count) + 1) + 1)
    }),
  )
})

test.each([
  ['transient', 1, false, 0, 'retry'],
  ['transient', 1_000_000, false, 0, 'retry'],
  ['transient', 4, false, 3, 'end'],
  ['record', 1, false, 0, 'bisect'],
  ['record', 1, true, 0, 'retry'],
  ['config', 9, false, 0, 'retry'],
  ['unknown', 4, false, 0, 'retry'],
  ['unknown', 5, false, 0, 'bisect'],
  ['unknown', 6, true, 0, 'retry'],
  ['fenced', 1, false, 0, 'end'],
] as const)('class %s after %i failures (all failed: %s, bound %i): %s', (kind, failures, allFailed, retriesMax, wanted) => {
  const error = new ConnectorError({ class: kind, type: 'unknown' }, 'x')
  expect(chooseReaction(error, { failures, allFailed, retriesMax }).do).toBe(wanted)
})

test('an error that is no ConnectorError has class unknown', () => {
  expect(toConnectorError(new TypeError('x'))).toMatchObject({ class: 'unknown', type: 'unknown', message: 'x' })
})

test('retry delays double from 0.5 s to 30 s with jitter and respect retryAfter', () => {
  for (const [failures, ms] of [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000].entries()) {
    const delay = retryDelayMs(sinkRetry, failures)
    expect(delay).toBeGreaterThanOrEqual(ms * 0.8)
    expect(delay).toBeLessThanOrEqual(ms * 1.2)
  }
  expect(retryDelayMs(sinkRetry, 0, 90_000)).toBe(90_000)
})
