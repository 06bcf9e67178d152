import { expect, test } from 'vitest'
import { isCursorOfEpoch } from './server-restarts.ts'

const boots = { boot: 'now', ended: new Map([['before', 900n]]) }

test.each([
  ['of the boot that runs', 'now', 5000n, true],
  ['of the boot before, from before its end', 'before', 900n, true],
  ['of the boot before, that saw what came after it', 'before', 901n, false],
  ['of a boot nobody here has had', 'lost', 5n, false],
])('a cursor %s', (_, boot, xmax, expected) => {
  expect(isCursorOfEpoch(boots, { boot, snapshot: { xmin: xmax, xmax, inFlight: [] } })).toBe(expected)
})
