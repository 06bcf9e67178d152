import fc from 'fast-check'
import { expect, test } from 'vitest'
import { selectCommittable } from '../sinks/offset-coverage.ts'
import { jsonMessage } from '../test-parts/scripted.ts'
import { InFlightBudget } from './in-flight-budget.ts'
import type { InFlightMessage, MessageOutcome, QueueEntry } from './in-flight-message.ts'
import { InFlightMessages } from './in-flight-messages.ts'

function openWith(count: number, partition = 0) {
  const budget = new InFlightBudget(1 << 20)
  let moved = 0
  const open = new InFlightMessages(budget)
  open.listen({ onPrefixAdvance: (messages) => void (moved += messages) })
  const tracker = open.getTracker(partition)
  const messages = Array.from({ length: count }, (_, at) => open.add(jsonMessage({ at }, at, partition), tracker, 0))
  return { budget, open, messages, moved: () => moved, tracker }
}

test('an outcome after a pending message keeps only its position', () => {
  const { open, messages, budget, moved } = openWith(10)
  const before = budget.bytes
  for (const message of messages.slice(4)) open.finishRecord(message, 'dropped')
  for (const message of messages.slice(0, 3)) open.finishRecord(message, 'written')
  expect(open.getPrefixes()).toEqual(new Map([[0, 2]]))
  expect(moved()).toBe(3)
  expect(budget.positions).toBe(7)
  expect(budget.bytes).toBeLessThan(before / 5)
  expect(messages[5]!.message).toBeUndefined()
  open.finishRecord(messages[3]!, 'written')
  expect(open.getPrefixes()).toEqual(new Map([[0, 9]]))
  expect(budget).toMatchObject({ bytes: 0, positions: 0 })
})

test('any order of outcomes commits exactly the prefix of finished messages', () => {
  const endings = ['written', 'dropped', 'dead-lettered'] as const
  const cases = fc.integer({ min: 1, max: 60 }).chain((count) =>
    fc.record({
      count: fc.constant(count),
      order: fc.shuffledSubarray(
        Array.from({ length: count }, (_, at) => at),
        { minLength: 0 },
      ),
      how: fc.array(fc.constantFrom(...endings), { minLength: count, maxLength: count }),
    }),
  )
  fc.assert(
    fc.property(cases, ({ count, order, how }) => {
      const { open, messages, budget } = openWith(count)
      const ended = new Map<number, MessageOutcome>()
      for (const at of order) {
        open.finishRecord(messages[at]!, how[at]!)
        ended.set(at, how[at]!)
        // The model: count from the front while there are endings.
        let prefix = 0
        while (ended.has(prefix)) prefix += 1
        expect(open.getPrefixes().get(0)).toBe(prefix === 0 ? undefined : prefix - 1)
        const counts = { written: 0, dropped: 0, 'dead-lettered': 0 }
        for (let one = 0; one < prefix; one += 1) counts[ended.get(one)!] += 1
        expect(open.getCounts()).toEqual(counts)
        expect(budget.positions).toBe(count - prefix)
      }
      expect(open.count).toBe(count - order.length)
    }),
  )
})

test.each([
  [['written', 'written'], 'written'],
  [['written', 'dead-lettered'], 'dead-lettered'],
  [['dead-lettered', 'written'], 'dead-lettered'],
  [['dropped', 'written'], 'written'],
  [['dropped', 'dropped'], 'dropped'],
  [['written-before', 'dropped'], 'written'],
] as const)('records with outcomes %j give the message the outcome %s once', (records, ending) => {
  const seen: string[] = []
  const open = new InFlightMessages(new InFlightBudget(1 << 20))
  open.listen({ onOutcome: (_message, outcome) => void seen.push(outcome) })
  const message = jsonMessage({}, 0)
  const of = open.add(message, open.getTracker(0), 0)
  open.splitIntoRecords(
    of,
    records.map(() => message),
  )
  for (const [at, how] of records.entries()) {
    expect(seen).toEqual([])
    expect(open.getPrefixes().size).toBe(0)
    open.finishRecord(of, how)
    if (at < records.length - 1) expect(of.outcome).toBeUndefined()
  }
  expect(seen).toEqual([ending])
  expect(() => open.finishRecord(of, 'written')).toThrow('already had one')
})

test('a revoked partition removes its in-flight messages', () => {
  const { open, messages, budget } = openWith(5)
  open.finishRecord(messages[0]!, 'written')
  open.forgetPartitions([0])
  expect(budget).toMatchObject({ bytes: 0, positions: 0 })
  open.finishRecord(messages[1]!, 'written')
  expect(open.getPrefixes().size).toBe(0)
  expect(open.getCounts()).toMatchObject({ written: 1 })
  expect(open.count).toBe(0)
  const again = open.add(jsonMessage({}, 1), open.getTracker(0), 0)
  open.finishRecord(again, 'written')
  expect(open.getPrefixes()).toEqual(new Map([[0, 1]]))
})

test('a transaction contains only records without an earlier pending message', () => {
  const { open, messages } = openWith(8)
  const itemOf = (from: InFlightMessage): QueueEntry => ({ record: jsonMessage({}, 0), from, index: 0, bytes: 0, isLast: true })
  open.finishRecord(messages[0]!, 'dropped')
  // 3 is open elsewhere: 1 and 2 may go, 4 and 5 have to wait.
  const batch = [1, 2, 4, 5].map((at) => itemOf(messages[at]!))
  const { entries, rest, positions } = selectCommittable(batch)
  expect(entries.map(({ from }) => from.position)).toEqual([1, 2])
  expect(rest.map(({ from }) => from.position)).toEqual([4, 5])
  expect(positions).toEqual(new Map([[0, 2]]))
  for (const { from } of entries) open.finishRecord(from, 'written')
  expect(selectCommittable(rest).entries).toEqual([])
  open.finishRecord(messages[3]!, 'dead-lettered')
  expect(selectCommittable(rest)).toMatchObject({ rest: [], positions: new Map([[0, 5]]) })
})

test('a message with a record elsewhere is not covered', () => {
  const { open, messages } = openWith(2)
  open.splitIntoRecords(messages[0]!, [jsonMessage({}, 0), jsonMessage({}, 0)])
  const entries = messages.map((from): QueueEntry => ({ record: jsonMessage({}, 0), from, index: 0, bytes: 0, isLast: true }))
  expect(selectCommittable(entries).entries).toEqual([])
  open.finishRecord(messages[0]!, 'written')
  expect(selectCommittable(entries).entries).toHaveLength(2)
})
