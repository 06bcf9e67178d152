import { expect, test } from 'vitest'
import { type ClaimState, cutMessage, decideCompletion, decideExpiry } from './decide-completion.ts'
import { acceptingStates, nextWorkOrderState, toRetryDelaySeconds, workOrderInputs, workOrderStates } from './work-order-states.ts'

/** Every pair that changes something, typed out; each other pair is refused. */
const changes: Readonly<Record<string, string>> = {
  'PENDING claim': 'CLAIMED',
  'PENDING cancel': 'DELETED',
  'CLAIMED succeed': 'LOGGED',
  'CLAIMED fail': 'RETRY_PENDING',
  'CLAIMED giveUp': 'LOGGED',
  'CLAIMED expire': 'PENDING',
  'CLAIMED expireLast': 'LOGGED',
  'CLAIMED release': 'PENDING',
  'CLAIMED cancel': 'DELETED',
  'RETRY_PENDING retryDue': 'PENDING',
  'RETRY_PENDING cancel': 'DELETED',
}
const pairs = workOrderStates.flatMap((state) => workOrderInputs.map((input) => [state, input] as const))

test.each(pairs)('a work order in state %s answers input %s as the list says', (state, input) => {
  expect(nextWorkOrderState[state][input]).toBe(changes[`${state} ${input}`] ?? 'refuse')
})

test('the list of changes names pairs of the table alone', () => {
  const names = pairs.map(([state, input]) => `${state} ${input}`)
  expect(Object.keys(changes).filter((name) => !names.includes(name))).toEqual([])
  expect(acceptingStates('cancel')).toBe(`'PENDING', 'CLAIMED', 'RETRY_PENDING'`)
})

const held: ClaimState = { status: 'CLAIMED', claimed_by: 'a', attempt: 2, retry_count: 0, max_retries: 1, backoff_seconds: 60 }
const success = { success: true, message: null, retryable: true, attempt: 2 }
const failure = { ...success, success: false, message: 'no' }

test.each([
  ['success of the holder', held, success, 'a', { do: 'log', success: true, message: null }],
  ['success without an attempt', held, { ...success, attempt: null }, 'a', { do: 'log', success: true, message: null }],
  ['success reported by an admin', held, success, null, { do: 'log', success: true, message: null }],
  ['failure with a retry left', held, failure, 'a', { do: 'retry', retryCount: 1, delaySeconds: 120, message: 'no' }],
  ['last failure', { ...held, retry_count: 1 }, failure, 'a', { do: 'log', success: false, message: 'no' }],
  ['permanent failure', held, { ...failure, retryable: false }, 'a', { do: 'log', success: false, message: 'no' }],
  [
    'failure without a message',
    { ...held, max_retries: 0 },
    { ...failure, message: null },
    'a',
    { do: 'log', success: false, message: 'Unknown error' },
  ],
  ['another agent', held, success, 'b', { do: 'refuse', code: 'work_order_not_claimed_by_agent' }],
  ['an earlier attempt', held, { ...success, attempt: 1 }, 'a', { do: 'refuse', code: 'work_order_attempt_stale' }],
  [
    'a pending order',
    { ...held, status: 'PENDING' as const, claimed_by: null },
    success,
    null,
    { do: 'refuse', code: 'work_order_not_claimed_by_agent' },
  ],
])('a report is decided: %s', (_, order, result, agentId, expected) => {
  expect(decideCompletion(order, result, agentId)).toEqual(expected)
})

test('a claim that timed out uses a retry, and the last one ends the order', () => {
  expect(decideExpiry({ retry_count: 0, max_retries: 1 })).toBe('expire')
  expect(decideExpiry({ retry_count: 1, max_retries: 1 })).toBe('expireLast')
})

test('the delay doubles with each retry up to a day', () => {
  expect([1, 2, 3, 100].map((retry) => toRetryDelaySeconds(60, retry))).toEqual([120, 240, 480, 86_400])
})

test('a long message is cut between characters', () => {
  expect(cutMessage('x'.repeat(4096))).toHaveLength(4096)
  const cut = cutMessage('ü'.repeat(3000))
  expect([Buffer.byteLength(cut) <= 4096, cut.endsWith('ü…[cut]'), cut.includes('\uFFFD')]).toEqual([true, true, false])
})
