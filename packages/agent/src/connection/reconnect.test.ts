import { expect, test } from 'vitest'
import { noFailures, planReconnect, type StreamEnd, type StreamResult } from './reconnect.ts'

const ended = (end: StreamEnd, change: Partial<StreamResult> = {}): StreamResult => ({
  end,
  lastedMs: 5_000,
  hadCursor: true,
  hasMoved: false,
  ...change,
})
const refused = (status: number, code = 'x', retryAfterMs?: number): StreamEnd => ({ how: 'refused', status, code, retryAfterMs })
const two = { failures: 2, broken: 0, mute: 0 }

test.each([
  [
    'a cut stream backs off and keeps its cursor',
    two,
    ended({ how: 'lost' }),
    { atLeastMs: 0, backoffAttempt: 2, cursor: 'keep', transport: 'stream' },
  ],
  ['a silent stream does the same', two, ended({ how: 'silent' }), { backoffAttempt: 2, cursor: 'keep' }],
  [
    'a stream that held for a minute begins anew',
    two,
    ended({ how: 'lost' }, { lastedMs: 60_000 }),
    { backoffAttempt: 0, failures: { failures: 1, broken: 0, mute: 0 } },
  ],
  [
    'a bye is obeyed to the millisecond',
    two,
    ended({ how: 'bye', retryAfterMs: 4180 }),
    { atLeastMs: 4180, backoffAttempt: null, failures: noFailures },
  ],
  [
    'a bye without a wait after a moment is not a reason to hammer',
    two,
    ended({ how: 'bye', retryAfterMs: 0 }, { lastedMs: 10 }),
    { atLeastMs: 0, backoffAttempt: 2 },
  ],
  ['a bye that asks for a year is bounded', two, ended({ how: 'bye', retryAfterMs: 3e10 }), { atLeastMs: 300_000 }],
  ['an unproven list is asked for again, without cursor', two, ended({ how: 'unverified' }), { backoffAttempt: 2, cursor: 'drop' }],
  ['a list that we asked for ourselves comes at once', two, ended({ how: 'asked' }), { backoffAttempt: null, cursor: 'drop' }],
  [
    'a stream that shows nothing is tried once more',
    noFailures,
    ended({ how: 'mute' }, { lastedMs: 30_000 }),
    { cursor: 'keep', transport: 'stream', failures: { failures: 1, broken: 0, mute: 1 } },
  ],
  ['the second one in a row makes it a long poll', { failures: 1, broken: 0, mute: 1 }, ended({ how: 'mute' }), { transport: 'longpoll' }],
  [
    'a broker that is away in between says nothing about streams',
    { failures: 1, broken: 0, mute: 1 },
    ended({ how: 'lost' }),
    { failures: { failures: 2, broken: 0, mute: 1 }, transport: 'stream' },
  ],
  [
    'a stream that showed frames begins the count anew',
    { failures: 1, broken: 0, mute: 1 },
    ended({ how: 'silent' }),
    { failures: { failures: 2, broken: 0, mute: 0 } },
  ],
  ['a long poll is followed by the next', two, ended({ how: 'polled' }), { backoffAttempt: null, failures: noFailures, cursor: 'keep' }],
  ['no such path means polling', two, ended(refused(404)), { transport: 'poll' }],
  ['no such method means polling', two, ended(refused(405)), { transport: 'poll' }],
  ['not implemented means polling', two, ended(refused(501)), { transport: 'poll' }],
  [
    'a refused key backs off and changes nothing',
    two,
    ended(refused(401, 'unauthorized')),
    { backoffAttempt: 2, cursor: 'keep', transport: 'stream' },
  ],
  ['a busy broker names its wait', two, ended(refused(503, 'overloaded', 7_000)), { atLeastMs: 7_000, backoffAttempt: 2 }],
  ['a wait of an hour is bounded', two, ended(refused(503, 'overloaded', 3_600_000)), { atLeastMs: 60_000 }],
  ['a bad cursor is dropped at once', two, ended(refused(400, 'bad_cursor')), { cursor: 'drop', backoffAttempt: null }],
  [
    'a bad cursor where none was sent backs off',
    two,
    ended(refused(400, 'bad_cursor'), { hadCursor: false }),
    { cursor: 'drop', backoffAttempt: 2 },
  ],
])('%s', (_what, failures, end, expected) => {
  expect(planReconnect(failures, end)).toMatchObject(expected)
})

test('the third broken stream in a row without progress drops the cursor', () => {
  let failures = noFailures
  const cursors = [false, false, false, false].map((hasMoved) => {
    const next = planReconnect(failures, ended({ how: 'broken' }, { hasMoved }))
    failures = next.failures
    return next.cursor
  })
  expect(cursors).toEqual(['keep', 'keep', 'drop', 'keep'])
  const moved = planReconnect({ failures: 2, broken: 2, mute: 0 }, ended({ how: 'broken' }, { hasMoved: true }))
  expect(moved.cursor).toBe('keep')
})
