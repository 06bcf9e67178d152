import fc from 'fast-check'
import { expect, test } from 'vitest'
import { OpenBudget } from './budget.ts'
import { coverageOf } from './coverage.ts'
import type { Ending, Item, OpenMessage } from './open-message.ts'
import { OpenMessages } from './open-messages.ts'
import { jsonMessage } from './test-parts/scripted.ts'

function openWith(count: number, partition = 0) {
  const budget = new OpenBudget(1 << 20)
  let moved = 0
  const open = new OpenMessages({ budget, moved: (by) => void (moved += by) })
  const tracker = open.trackerOf(partition)
  const messages = Array.from({ length: count }, (_, at) => open.add(jsonMessage({ at }, at, partition), tracker, 0))
  return { budget, open, messages, moved: () => moved, tracker }
}

test('an ending behind an open message waits with its position alone', () => {
  const { open, messages, budget, moved } = openWith(10)
  const before = budget.bytes
  for (const message of messages.slice(4)) open.end(message, 'dropped')
  for (const message of messages.slice(0, 3)) open.end(message, 'written')
  expect(open.prefixes()).toEqual(new Map([[0, 2]]))
  expect(moved()).toBe(3)
  expect(budget.positions).toBe(7)
  expect(budget.bytes).toBeLessThan(before / 5)
  expect(messages[5]!.message).toBeUndefined()
  open.end(messages[3]!, 'written')
  expect(open.prefixes()).toEqual(new Map([[0, 9]]))
  expect(budget).toMatchObject({ bytes: 0, positions: 0 })
})

test('any order of endings commits exactly the run of ended messages from the front', () => {
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
      const ended = new Map<number, Ending>()
      for (const at of order) {
        open.end(messages[at]!, how[at]!)
        ended.set(at, how[at]!)
        // The model: count from the front while there are endings.
        let prefix = 0
        while (ended.has(prefix)) prefix += 1
        expect(open.prefixes().get(0)).toBe(prefix === 0 ? undefined : prefix - 1)
        const counts = { written: 0, dropped: 0, 'dead-lettered': 0 }
        for (let one = 0; one < prefix; one += 1) counts[ended.get(one)!] += 1
        expect(open.counts()).toEqual(counts)
        expect(budget.positions).toBe(count - prefix)
      }
      expect(open.open).toBe(count - order.length)
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
] as const)('records that end as %j make a message that ends %s, once', (records, ending) => {
  const seen: string[] = []
  const open = new OpenMessages({ budget: new OpenBudget(1 << 20), moved: () => {}, ended: (_of, how) => void seen.push(how) })
  const message = jsonMessage({}, 0)
  const of = open.add(message, open.trackerOf(0), 0)
  open.becameRecords(
    of,
    records.map(() => message),
  )
  for (const [at, how] of records.entries()) {
    expect(seen).toEqual([])
    expect(open.prefixes().size).toBe(0)
    open.end(of, how)
    if (at < records.length - 1) expect(of.ending).toBeUndefined()
  }
  expect(seen).toEqual([ending])
  expect(() => open.end(of, 'written')).toThrow('had ended already')
})

test('a partition that was given back takes its open messages along', () => {
  const { open, messages, budget } = openWith(5)
  open.end(messages[0]!, 'written')
  open.forget([0])
  expect(budget).toMatchObject({ bytes: 0, positions: 0 })
  open.end(messages[1]!, 'written')
  expect(open.prefixes().size).toBe(0)
  expect(open.counts()).toMatchObject({ written: 1 })
  expect(open.open).toBe(0)
  const again = open.add(jsonMessage({}, 1), open.trackerOf(0), 0)
  open.end(again, 'written')
  expect(open.prefixes()).toEqual(new Map([[0, 1]]))
})

test('a transaction takes only what no open message stands before', () => {
  const { open, messages } = openWith(8)
  const itemOf = (from: OpenMessage): Item => ({ record: jsonMessage({}, 0), from, index: 0, bytes: 0, isLast: true })
  open.end(messages[0]!, 'dropped')
  // 3 is open elsewhere: 1 and 2 may go, 4 and 5 have to wait.
  const batch = [1, 2, 4, 5].map((at) => itemOf(messages[at]!))
  const { items, rest, positions } = coverageOf(batch)
  expect(items.map(({ from }) => from.position)).toEqual([1, 2])
  expect(rest.map(({ from }) => from.position)).toEqual([4, 5])
  expect(positions).toEqual(new Map([[0, 2]]))
  for (const { from } of items) open.end(from, 'written')
  expect(coverageOf(rest).items).toEqual([])
  open.end(messages[3]!, 'dead-lettered')
  expect(coverageOf(rest)).toMatchObject({ rest: [], positions: new Map([[0, 5]]) })
})

test('a message with a record elsewhere is not covered', () => {
  const { open, messages } = openWith(2)
  open.becameRecords(messages[0]!, [jsonMessage({}, 0), jsonMessage({}, 0)])
  const items = messages.map((from): Item => ({ record: jsonMessage({}, 0), from, index: 0, bytes: 0, isLast: true }))
  expect(coverageOf(items).items).toEqual([])
  open.end(messages[0]!, 'written')
  expect(coverageOf(items).items).toHaveLength(2)
})
