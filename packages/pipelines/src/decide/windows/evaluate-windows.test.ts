import type { Window } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import { expect, test } from 'vitest'
import { evaluateWindows } from './evaluate-windows.ts'

const window = (more: Partial<Window>): Window => ({ name: 'w', kind: 'Allow', start: '2026-01-01T09:00:00', duration: '8h', ...more })
const at = (text: string): number => Date.parse(text)
const text = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString().slice(0, 16))
const state = (windows: Window[], time: string) => {
  const { isOpen, closedBy, nextBoundaryMs, nextOpenMs } = evaluateWindows(windows, at(time))
  return [isOpen, closedBy, text(nextBoundaryMs), text(nextOpenMs)]
}
/** The next four begins of an Allow window of one minute after `time`. */
function begins(more: Partial<Window>, time: string, many = 4): (string | null)[] {
  const found: (string | null)[] = []
  for (let ms = at(time); found.length < many; ) {
    const { isOpen, nextOpenMs, nextBoundaryMs } = evaluateWindows([window({ duration: '1m', ...more })], ms)
    const next = isOpen ? nextBoundaryMs : nextOpenMs
    if (next === null) return [...found, null]
    if (!isOpen) found.push(text(next))
    ms = next
  }
  return found
}

test.each([
  ['no window', [], '2026-05-01T00:00Z', [true, null, null, null]],
  ['one Allow before it', [window({})], '2026-01-01T08:59Z', [false, null, '2026-01-01T09:00', '2026-01-01T09:00']],
  ['one Allow at its begin', [window({})], '2026-01-01T09:00Z', [true, null, '2026-01-01T17:00', null]],
  ['one Allow at its end', [window({})], '2026-01-01T17:00Z', [false, null, null, null]],
  ['one Deny in it', [window({ kind: 'Deny' })], '2026-01-01T10:00Z', [false, 'w', '2026-01-01T17:00', '2026-01-01T17:00']],
  ['one Deny at its end', [window({ kind: 'Deny' })], '2026-01-01T17:00Z', [true, null, null, null]],
  [
    'a Deny inside an Allow',
    [window({}), window({ name: 'lunch', kind: 'Deny', start: '2026-01-01T12:00:00', duration: '1h' })],
    '2026-01-01T12:30Z',
    [false, 'lunch', '2026-01-01T13:00', '2026-01-01T13:00'],
  ],
  [
    'a Deny that lasts longer than the Allow',
    [window({ rrule: 'FREQ=DAILY' }), window({ name: 'freeze', kind: 'Deny', start: '2026-01-01T12:00:00', duration: '10h' })],
    '2026-01-01T12:30Z',
    [false, 'freeze', '2026-01-01T17:00', '2026-01-02T09:00'],
  ],
  [
    'two Denies that overlap',
    [window({ kind: 'Deny' }), window({ name: 'b', kind: 'Deny', start: '2026-01-01T16:00:00' })],
    '2026-01-01T10:00Z',
    [false, 'w', '2026-01-01T16:00', '2026-01-02T00:00'],
  ],
  [
    'a window longer than its period',
    [window({ rrule: 'FREQ=DAILY', duration: '30h' })],
    '2026-01-03T08:00Z',
    [true, null, '2026-01-03T09:00', null],
  ],
] as const)('%s is evaluated', (_what, windows, time, expected) => {
  expect(state([...windows], time)).toEqual(expected)
})

test.each([
  ['DAILY', { rrule: 'FREQ=DAILY' }, ['2026-01-01T09:00', '2026-01-02T09:00', '2026-01-03T09:00']],
  ['every third day', { rrule: 'FREQ=DAILY;INTERVAL=3' }, ['2026-01-01T09:00', '2026-01-04T09:00', '2026-01-07T09:00']],
  ['DAILY on work days', { rrule: 'FREQ=DAILY;BYDAY=MO,TU,WE,TH,FR' }, ['2026-01-01T09:00', '2026-01-02T09:00', '2026-01-05T09:00']],
  ['COUNT', { rrule: 'FREQ=DAILY;COUNT=2' }, ['2026-01-01T09:00', '2026-01-02T09:00', null]],
  ['COUNT with an excluded day', { rrule: 'FREQ=DAILY;COUNT=2', exdates: ['2026-01-01T09:00:00'] }, ['2026-01-02T09:00', null]],
  ['UNTIL as a date', { rrule: 'FREQ=DAILY;UNTIL=20260102' }, ['2026-01-01T09:00', '2026-01-02T09:00', null]],
  ['UNTIL as an instant', { rrule: 'FREQ=DAILY;UNTIL=20260102T085959Z' }, ['2026-01-01T09:00', null]],
  ['WEEKLY without BYDAY', { rrule: 'FREQ=WEEKLY' }, ['2026-01-01T09:00', '2026-01-08T09:00', '2026-01-15T09:00']],
  ['WEEKLY on two days', { rrule: 'FREQ=WEEKLY;BYDAY=MO,TH' }, ['2026-01-01T09:00', '2026-01-05T09:00', '2026-01-08T09:00']],
  [
    'every second week from Monday',
    { rrule: 'FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,TH' },
    ['2026-01-01T09:00', '2026-01-04T09:00', '2026-01-15T09:00'],
  ],
  [
    'every second week from Sunday',
    { rrule: 'FREQ=WEEKLY;INTERVAL=2;BYDAY=SU,TH;WKST=SU' },
    ['2026-01-01T09:00', '2026-01-11T09:00', '2026-01-15T09:00'],
  ],
  ['the second Tuesday', { rrule: 'FREQ=MONTHLY;BYDAY=2TU' }, ['2026-01-13T09:00', '2026-02-10T09:00', '2026-03-10T09:00']],
  ['the last Friday', { rrule: 'FREQ=MONTHLY;BYDAY=-1FR' }, ['2026-01-30T09:00', '2026-02-27T09:00', '2026-03-27T09:00']],
  ['the last day', { rrule: 'FREQ=MONTHLY;BYMONTHDAY=-1' }, ['2026-01-31T09:00', '2026-02-28T09:00', '2026-03-31T09:00']],
  ['a Friday the 13th', { rrule: 'FREQ=MONTHLY;BYDAY=FR;BYMONTHDAY=13' }, ['2026-02-13T09:00', '2026-03-13T09:00', '2026-11-13T09:00']],
  [
    'the 31st, where it exists',
    { start: '2026-01-31T09:00:00', rrule: 'FREQ=MONTHLY' },
    ['2026-01-31T09:00', '2026-03-31T09:00', '2026-05-31T09:00'],
  ],
  ['leap days', { start: '2024-02-29T09:00:00', rrule: 'FREQ=YEARLY' }, ['2028-02-29T09:00', '2032-02-29T09:00', '2036-02-29T09:00']],
  [
    'the last Sunday of two months',
    { rrule: 'FREQ=YEARLY;BYMONTH=10,3;BYDAY=-1SU' },
    ['2026-03-29T09:00', '2026-10-25T09:00', '2027-03-28T09:00'],
  ],
  ['the 20th Monday of the year', { rrule: 'FREQ=YEARLY;BYDAY=20MO' }, ['2026-05-18T09:00', '2027-05-17T09:00', '2028-05-15T09:00']],
  ['a day that never comes', { rrule: 'FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30' }, [null]],
  ['no rule', {}, ['2026-01-01T09:00', null]],
] as const)('the rule "%s" gives its days', (_what, more, expected) => {
  const { exdates, ...rest } = more as Partial<Window>
  expect(begins({ ...rest, ...(exdates ? { exdates: [...exdates] } : {}) }, '2026-01-01T00:00Z', expected.length)).toEqual(expected)
})

// Europe/Berlin: forward at 2026-03-29 02:00 (+01 → +02), back at 2026-10-25 03:00 (+02 → +01). Lord Howe moves by half an hour.
test.each([
  [
    '09:00 stays local time in spring',
    { timezone: 'Europe/Berlin', start: '2026-03-28T09:00:00', rrule: 'FREQ=DAILY' },
    ['2026-03-28T08:00', '2026-03-29T07:00', '2026-03-30T07:00'],
  ],
  [
    '09:00 stays local time in autumn',
    { timezone: 'Europe/Berlin', start: '2026-10-24T09:00:00', rrule: 'FREQ=DAILY' },
    ['2026-10-24T07:00', '2026-10-25T08:00', '2026-10-26T08:00'],
  ],
  [
    'a skipped time uses the offset before the gap',
    { timezone: 'Europe/Berlin', start: '2026-03-28T02:30:00', rrule: 'FREQ=DAILY' },
    ['2026-03-28T01:30', '2026-03-29T01:30', '2026-03-30T00:30'],
  ],
  [
    'a repeated time is its first occurrence',
    { timezone: 'Europe/Berlin', start: '2026-10-24T02:30:00', rrule: 'FREQ=DAILY' },
    ['2026-10-24T00:30', '2026-10-25T00:30', '2026-10-26T01:30'],
  ],
  [
    'midnight that is skipped',
    { timezone: 'America/Sao_Paulo', start: '2018-11-03T00:00:00', rrule: 'FREQ=DAILY' },
    ['2018-11-03T03:00', '2018-11-04T03:00', '2018-11-05T02:00'],
  ],
  [
    'a shift of half an hour',
    { timezone: 'Australia/Lord_Howe', start: '2026-10-03T09:00:00', rrule: 'FREQ=DAILY' },
    ['2026-10-02T22:30', '2026-10-03T22:00', '2026-10-04T22:00'],
  ],
  [
    'a zone east of the date line',
    { timezone: 'Pacific/Kiritimati', start: '2026-01-01T00:30:00', rrule: 'FREQ=DAILY' },
    ['2025-12-31T10:30', '2026-01-01T10:30', '2026-01-02T10:30'],
  ],
] as const)('[P80] %s', (_what, more, expected) => {
  const from = more.start.startsWith('2018') ? '2018-11-02T12:00Z' : new Date(at(`${more.start}Z`) - 86_400_000).toISOString()
  expect(begins(more, from, 3)).toEqual(expected)
})

test('the duration of a window is elapsed time over a clock change', () => {
  const night = window({ timezone: 'Europe/Berlin', start: '2026-03-29T00:00:00', duration: '4h' })
  expect(state([night], '2026-03-29T01:00Z')).toEqual([true, null, '2026-03-29T03:00', null])
})

test('the state is the same at every time whether it is computed or carried from the boundary before', () => {
  const windows = [
    window({ timezone: 'Europe/Berlin', start: '2026-10-24T01:30:00', duration: '90m', rrule: 'FREQ=DAILY;COUNT=4' }),
    window({
      name: 'd',
      kind: 'Deny',
      timezone: 'America/New_York',
      start: '2026-10-23T20:15:00',
      duration: '3h',
      rrule: 'FREQ=DAILY;INTERVAL=2',
    }),
  ]
  let carried = evaluateWindows(windows, at('2026-10-23T00:00Z'))
  for (let ms = at('2026-10-23T00:00Z'); ms < at('2026-10-29T00:00Z'); ms += 300_000) {
    if (carried.nextBoundaryMs !== null && ms >= carried.nextBoundaryMs) carried = evaluateWindows(windows, ms)
    expect(evaluateWindows(windows, ms).isOpen).toBe(carried.isOpen)
  }
})
