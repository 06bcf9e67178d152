import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { covers, type DatabaseSnapshot, formatSnapshot, isCursorOfEpoch, parseCursor, parseSnapshot, signCursor } from './cursor.ts'

const epoch = '5f0c0000-0000-4000-8000-000000000001'
const boot = 'b0070000-0000-4000-8000-000000000001'
const key = randomBytes(32)

/** What a snapshot means, in one line: a transaction is visible if it is below xmax and not in flight. */
const sees = (s: DatabaseSnapshot, xid: bigint) => xid < s.xmax && !s.inFlight.includes(xid)

const snapshots = fc
  .record({ low: fc.bigInt(1n, 60n), width: fc.bigInt(0n, 12n), picks: fc.array(fc.nat(11), { maxLength: 6 }) })
  .map(({ low, width, picks }) => {
    const inFlight = [...new Set(picks.map((pick) => low + BigInt(pick)))]
      .filter((xid) => xid < low + width)
      .toSorted((a, b) => (a < b ? -1 : 1))
    return { xmin: inFlight[0] ?? low + width, xmax: low + width, inFlight }
  })

test('the text and signed forms of a cursor parse to the same snapshot', () => {
  fc.assert(
    fc.property(snapshots, (snapshot) => {
      expect(parseSnapshot(formatSnapshot(snapshot))).toEqual(snapshot)
      expect(parseCursor(key, signCursor(key, { epoch, boot, snapshot }))).toEqual({ epoch, boot, snapshot })
    }),
  )
})

test('one snapshot covers another exactly when it sees every transaction the other saw', () => {
  const everyXid = Array.from({ length: 90 }, (_, n) => BigInt(n))
  fc.assert(
    fc.property(snapshots, snapshots, (wide, narrow) => {
      // Transactions from xmax on do not exist for a snapshot; the rule may only ever be stricter, never laxer.
      if (covers(wide, narrow)) expect(everyXid.filter((xid) => sees(narrow, xid) && !sees(wide, xid))).toEqual([])
      if (wide.xmax >= narrow.xmax && everyXid.every((xid) => !sees(narrow, xid) || sees(wide, xid)))
        expect(covers(wide, narrow)).toBe(true)
    }),
  )
})

test('a cursor with over a hundred in-flight entries falls back to xmin and skips no row', () => {
  const inFlight = Array.from({ length: 101 }, (_, n) => 1000n + BigInt(n))
  const read = parseCursor(key, signCursor(key, { epoch, boot, snapshot: { xmin: 1000n, xmax: 5000n, inFlight } }))
  expect(read?.snapshot).toEqual({ xmin: 1000n, xmax: 1000n, inFlight: [] })
})

test.each([
  ['empty', ''],
  ['no signature', Buffer.from(`1|${epoch}|${boot}|1:2:`).toString('base64url')],
  ['another key', signCursor(randomBytes(32), { epoch, boot, snapshot: parseSnapshot('1:2:') })],
  ['cut', signCursor(key, { epoch, boot, snapshot: parseSnapshot('1:2:') }).slice(0, -3)],
  ['three parts', `${signCursor(key, { epoch, boot, snapshot: parseSnapshot('1:2:') })}.x`],
  ['too long', 'a'.repeat(5000)],
])('a cursor that is %s is not a cursor', (_, text) => {
  expect(parseCursor(key, text)).toBeNull()
})

const boots = { boot: 'now', ended: new Map([['before', 900n]]) }

test.each([
  ['of the current boot', 'now', 5000n, true],
  ['of the previous boot, taken before its end', 'before', 900n, true],
  ['of the previous boot, with a transaction after its end', 'before', 901n, false],
  ['of an unknown boot', 'lost', 5n, false],
])('a cursor %s is checked against the boots', (_, cursorBoot, xmax, expected) => {
  expect(isCursorOfEpoch(boots, { boot: cursorBoot, snapshot: { xmin: xmax, xmax, inFlight: [] } })).toBe(expected)
})
