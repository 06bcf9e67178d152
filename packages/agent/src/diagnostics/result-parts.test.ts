import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cutText, fitRows, fitTails, jsonBytesOf, limits, toEventRow, toPodStatus } from './result-parts.ts'

const awkward = fc.string({ unit: fc.constantFrom('a', '"', '\\', '\n', 'é', '😀', '\u0000'), maxLength: 4_000 })

describe('result sizes', () => {
  test('a text is cut at a character to its encoded size limit, with a note', () => {
    fc.assert(
      fc.property(awkward, fc.integer({ min: 32, max: 2_000 }), fc.constantFrom('start' as const, 'end' as const), (text, max, keep) => {
        const cut = cutText(text, max, keep)
        expect(jsonBytesOf(cut)).toBeLessThanOrEqual(max)
        expect(cut.isWellFormed()).toBe(true)
        expect(cut === text || cut.endsWith('…[cut]')).toBe(true)
      }),
    )
  })

  test('rows are omitted whole, from the end', () => {
    const rows = Array.from({ length: 1_000 }, (_, n) => ({ n, text: '"'.repeat(200) }))
    const text = fitRows(rows, 64 * 1024)
    expect(jsonBytesOf(text)).toBeLessThanOrEqual(64 * 1024)
    expect((JSON.parse(text) as { n: number }[]).map(({ n }) => n)).toEqual(
      rows.slice(0, (JSON.parse(text) as unknown[]).length).map(({ n }) => n),
    )
  })

  test.each([1, 20, 200])('10 MiB of logs in %i tails fit, are JSON, and keep their ends', (count) => {
    const tails = new Map(
      Array.from({ length: count }, (_, n) => [`pod-${n}/c`, `${'line "x"\n'.repeat(Math.ceil(10_485_760 / 9 / count))}last`]),
    )
    const text = fitTails(tails, limits.tails)
    expect(jsonBytesOf(text)).toBeLessThanOrEqual(limits.tails)
    const read = JSON.parse(text) as Record<string, string>
    expect(Object.keys(read).length).toBe(count)
    for (const tail of Object.values(read)) {
      expect(jsonBytesOf(tail)).toBeLessThanOrEqual(limits.tail)
      expect(tail.endsWith('last…[cut]')).toBe(true)
    }
  })
})

test('the pod summary contains its state and no environment', () => {
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'p', namespace: 'n', annotations: { secret: 'canary' } },
    spec: { containers: [{ name: 'c', env: [{ name: 'A', value: 'canary' }] }] },
    status: {
      phase: 'Running',
      conditions: [{ type: 'Ready', status: 'False', reason: 'R', message: 'M' }],
      containerStatuses: [
        { name: 'c', ready: false, restartCount: 2, state: { waiting: { reason: 'CrashLoopBackOff', message: 'back-off' } } },
      ],
    },
  }
  expect(toPodStatus(pod)).toEqual({
    name: 'p',
    namespace: 'n',
    phase: 'Running',
    conditions: [{ condition_type: 'Ready', status: 'False', reason: 'R', message: 'M' }],
    containers: [
      { name: 'c', ready: false, restart_count: 2, state: 'waiting', state_reason: 'CrashLoopBackOff', state_message: 'back-off' },
    ],
  })
  const event = {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name: 'e' },
    type: 'Warning',
    reason: 'R',
    message: 'm',
    involvedObject: { kind: 'Pod', name: 'p' },
    count: 3,
  }
  expect(toEventRow(event)).toMatchObject({
    event_type: 'Warning',
    involved_object: 'p',
    involved_object_kind: 'Pod',
    count: 3,
    last_timestamp: null,
  })
})
