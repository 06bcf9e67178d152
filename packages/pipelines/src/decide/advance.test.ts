import type { Decision, PromotionStatus } from '@brokkr/contract/pipelines/promotion.ts'
import { expect, test } from 'vitest'
import type { PromotionRecord } from '../objects.ts'
import { type AdvanceContext, advancePromotion } from './advance.ts'
import { afterFailure, beginAttempt } from './promotion-status.ts'
import { settings, target } from './test-parts/simulation.ts'

const nowMs = Date.UTC(2026, 0, 1, 12)
const ago = (seconds: number): string => new Date(nowMs - seconds * 1000).toISOString()
const open = { isOpen: true, closedBy: null, nextBoundaryMs: null, nextOpenMs: null }
const context = (more: Partial<AdvanceContext> = {}): AdvanceContext => ({
  nowMs,
  environment: { name: 'prod', targets: [target('a')] },
  policy: { strategy: { notification: {} } },
  trigger: 'Watch',
  isSuspended: false,
  windows: open,
  hasObserver: true,
  effectObservedAtMs: null,
  isReadRequested: false,
  secretVersion: undefined,
  settings,
  ...more,
})
const record = (status: PromotionStatus, spec: Partial<PromotionRecord['spec']> = {}): PromotionRecord => ({
  key: 'ns/p',
  namespace: 'ns',
  name: 'p',
  uid: 'u',
  resourceVersion: '1',
  generation: 1,
  createdAt: ago(3600),
  isDeleting: false,
  annotations: {},
  storedStatus: {},
  status: { phaseSince: ago(60), ...status },
  spec: {
    pipelineRef: { name: 'p', uid: 'u' },
    run: 1,
    environment: 'prod',
    revision: 'b',
    series: 1,
    key: 'k',
    cause: { kind: 'detected' },
    strategy: { notification: {} },
    supersede: 'Close',
    attempts: 3,
    attemptAge: '24h',
    soak: '0s',
    ...spec,
  },
})
/** `phase` after a write, or what else is done. */
const next = (status: PromotionStatus, more: Partial<AdvanceContext> = {}, spec: Partial<PromotionRecord['spec']> = {}): string => {
  const step = advancePromotion(record(status, spec), context(more))
  if (step.do === 'wait') return `wait ${step.pending?.reason ?? '-'} ${step.wakeAtMs === null ? '-' : (step.wakeAtMs - nowMs) / 1000}`
  return 'status' in step ? `${step.do} ${step.status.phase}` : step.do
}
const there = { environment: { name: 'prod', targets: [target('b')] } }
const pr = { effect: { prNumber: 1, prState: 'open' } } as const
const withdrawn = { effect: { prNumber: 1, prState: 'abandoned', withdrawnAt: ago(9) } } as const
const decision = (choice: Decision['decision']): Decision => ({ subject: 'user:a', decision: choice, key: 'k', at: ago(1) })
const closed = { isOpen: false, closedBy: 'freeze', nextBoundaryMs: nowMs + 9000, nextOpenMs: nowMs + 9000 }
const wait1h = { nextAttemptAt: ago(-3600) }

test.each([
  ['Pending without approval', { phase: 'Pending' }, {}, {}, 'write Queued'],
  ['Pending with approval', { phase: 'Pending' }, {}, { approval: {} }, 'write AwaitingApproval'],
  ['no phase yet', {}, {}, {}, 'write Queued'],
  ['Pending, targets there', { phase: 'Pending' }, there, {}, 'write Succeeded'],
  ['AwaitingApproval without decision', { phase: 'AwaitingApproval' }, {}, { approval: {} }, 'wait AwaitingApproval -'],
  ['AwaitingApproval approved', { phase: 'AwaitingApproval', approvals: [decision('approve')] }, {}, { approval: {} }, 'write Queued'],
  ['AwaitingApproval rejected', { phase: 'AwaitingApproval', approvals: [decision('reject')] }, {}, { approval: {} }, 'write Rejected'],
  [
    'AwaitingApproval before its deadline',
    { phase: 'AwaitingApproval' },
    {},
    { approval: { deadline: '90s' } },
    'wait AwaitingApproval 30',
  ],
  [
    'AwaitingApproval past its deadline',
    { phase: 'AwaitingApproval', approvals: [decision('approve')] },
    {},
    { approval: { deadline: '60s' } },
    'write Expired',
  ],
  ['Queued', { phase: 'Queued' }, {}, {}, 'attempt'],
  ['Queued, suspended', { phase: 'Queued' }, { isSuspended: true }, {}, 'wait Suspended -'],
  ['Queued, window closed', { phase: 'Queued' }, { windows: closed }, {}, 'wait WindowClosed 9'],
  ['Queued, not due', { phase: 'Queued', reason: 'ForgeError', nextAttemptAt: ago(-30) }, {}, {}, 'wait ForgeError 30'],
  ['Queued, due', { phase: 'Queued', nextAttemptAt: ago(0) }, {}, {}, 'attempt'],
  ['[C12] Queued, due in an hour because the clock was set back', { phase: 'Queued', ...wait1h }, {}, {}, 'attempt'],
  ['[C12] Queued, due a minute ago because the clock was set forward', { phase: 'Queued', nextAttemptAt: ago(60) }, {}, {}, 'attempt'],
  [
    '[C12] Queued, rate-limited for longer than any limit because the clock was set back',
    {
      phase: 'Queued',
      nextAttemptAt: ago(-3 * 3600),
      attempts: [{ number: 1, startedAt: ago(1), outcome: 'failed', class: 'rate-limited' }],
    },
    {},
    {},
    'attempt',
  ],
  ['[C12] Blocked since a time in the future', { phase: 'Blocked', phaseSince: ago(-3600) }, {}, {}, 'write Queued'],
  ['[C12] Blocked, the clock was set forward', { phase: 'Blocked', phaseSince: ago(3600) }, {}, {}, 'write Queued'],
  [
    '[C12] Verifying, the clock was set back: the soak lasts its time from now on',
    { phase: 'Verifying', observed: { targets: 1, onRevision: 1, ready: 1, soakUntil: ago(-3600) } },
    there,
    { soak: '5s' },
    'write Verifying',
  ],
  [
    '[C12] Verifying, the clock was set forward',
    { phase: 'Verifying', observed: { targets: 1, onRevision: 1, ready: 1, soakUntil: ago(3600) } },
    there,
    { soak: '5s' },
    'write Succeeded',
  ],
  [
    'Queued, rate-limited for an hour',
    { phase: 'Queued', ...wait1h, attempts: [{ number: 1, startedAt: ago(1), outcome: 'failed', class: 'rate-limited' }] },
    {},
    {},
    'wait - 3600',
  ],
  ['Running after a crash', { phase: 'Running' }, { windows: closed }, {}, 'attempt'],
  ['Blocked', { phase: 'Blocked', reason: 'MarkerNotFound' }, {}, {}, 'wait MarkerNotFound 1740'],
  ['Blocked with a retry request', { phase: 'Blocked', retry: { subject: 'user:a', at: ago(1) } }, {}, {}, 'write Queued'],
  ['Blocked with a new Secret', { phase: 'Blocked', blockedOn: { secretVersion: '1' } }, { secretVersion: '2' }, {}, 'write Queued'],
  [
    'Blocked on a commit of the base, not looked at yet',
    { phase: 'Blocked', phaseSince: ago(10), blockedOn: { baseSha: 'a' } },
    {},
    {},
    'wait Blocked 20',
  ],
  ['Blocked on a commit of the base, looked at a while ago', { phase: 'Blocked', blockedOn: { baseSha: 'a' } }, {}, {}, 'observe-block'],
  ['Blocked on a base branch that does not exist', { phase: 'Blocked', blockedOn: { baseSha: '' } }, {}, {}, 'observe-block'],
  [
    'Blocked for five minutes at the last look at the base',
    { phase: 'Blocked', phaseSince: ago(400), blockedOn: { baseSha: '' } },
    { effectObservedAtMs: nowMs - 100_000 },
    {},
    'wait Blocked 200',
  ],
  [
    'Blocked for long at the last look at the base',
    { phase: 'Blocked', phaseSince: ago(1100), blockedOn: { baseSha: '' } },
    { effectObservedAtMs: nowMs - 100_000 },
    {},
    'wait Blocked 500',
  ],
  [
    'Blocked for long, a pass was requested since the last look at the base',
    { phase: 'Blocked', phaseSince: ago(1100), blockedOn: { baseSha: '' } },
    { effectObservedAtMs: nowMs - 30_000, isReadRequested: true },
    {},
    'observe-block',
  ],
  [
    'Blocked on a commit of the base, suspended',
    { phase: 'Blocked', blockedOn: { baseSha: 'a' } },
    { isSuspended: true },
    {},
    'wait Blocked 1740',
  ],
  [
    'Blocked with the same Secret',
    { phase: 'Blocked', blockedOn: { secretVersion: '1' } },
    { secretVersion: '1' },
    {},
    'wait Blocked 1740',
  ],
  ['Blocked for 30 minutes', { phase: 'Blocked', phaseSince: ago(1800) }, {}, {}, 'write Queued'],
  ['Applied, targets elsewhere, no pull request', { phase: 'Applied' }, {}, {}, 'wait - -'],
  ['Applied, targets there', { phase: 'Applied' }, there, {}, 'write Succeeded'],
  ['Applied, targets there, soak', { phase: 'Applied' }, there, { soak: '5s' }, 'write Verifying'],
  ['Applied, targets there, pull request open', { phase: 'Applied', ...pr }, there, {}, 'withdraw Succeeded'],
  ['Applied, pull request not read yet', { phase: 'Applied', ...pr }, {}, {}, 'observe-effect'],
  ['Applied, pull request read a moment ago', { phase: 'Applied', ...pr }, { effectObservedAtMs: nowMs - 10_000 }, {}, 'wait - 20'],
  ['Applied, pull request closed', { phase: 'Applied', effect: { prNumber: 1, prState: 'abandoned' } }, {}, {}, 'write Abandoned'],
  [
    'Applied past its deadline',
    { phase: 'Applied', conditions: [{ type: 'Applied', status: 'True', reason: 'x', message: '', lastTransitionTime: ago(60) }] },
    {},
    { deadline: '60s' },
    'write Errored',
  ],
  [
    'Applied past its deadline, pull request open',
    {
      phase: 'Applied',
      ...pr,
      conditions: [{ type: 'Applied', status: 'True', reason: 'x', message: '', lastTransitionTime: ago(60) }],
    },
    {},
    { deadline: '60s' },
    'withdraw Errored',
  ],
  [
    'Applied past its deadline, pull request open, suspended',
    {
      phase: 'Applied',
      ...pr,
      conditions: [{ type: 'Applied', status: 'True', reason: 'x', message: '', lastTransitionTime: ago(60) }],
    },
    { isSuspended: true, effectObservedAtMs: nowMs - 10_000 },
    { deadline: '60s' },
    'wait - 20',
  ],
  [
    'Applied past its deadline, suspended, without a pull request',
    { phase: 'Applied', conditions: [{ type: 'Applied', status: 'True', reason: 'x', message: '', lastTransitionTime: ago(60) }] },
    { isSuspended: true },
    { deadline: '60s' },
    'write Errored',
  ],
  ['Applied, pull request withdrawn, targets on another revision', { phase: 'Applied', ...withdrawn }, {}, {}, 'write Abandoned'],
  ['Applied, pull request withdrawn, targets on the revision', { phase: 'Applied', ...withdrawn }, there, {}, 'write Succeeded'],
  [
    'Applied, pull request withdrawn, a target not ready',
    { phase: 'Applied', ...withdrawn },
    { environment: { name: 'prod', targets: [target('b!')] } },
    {},
    'wait - -',
  ],
  [
    'Applied, pull request withdrawn, a target unreachable',
    { phase: 'Applied', ...withdrawn },
    { environment: { name: 'prod', targets: [target('unreachable')] } },
    {},
    'wait - -',
  ],
  ['Applied under Webhook, pull request withdrawn', { phase: 'Applied', ...withdrawn }, { trigger: 'Webhook' }, {}, 'write Abandoned'],
  ['Applied under Webhook, no pull request', { phase: 'Applied' }, { trigger: 'Webhook' }, {}, 'write Succeeded'],
  [
    'Applied under Webhook, pull request open',
    { phase: 'Applied', ...pr },
    { trigger: 'Webhook', effectObservedAtMs: nowMs },
    {},
    'wait - 30',
  ],
  [
    'Applied under Webhook, pull request merged',
    { phase: 'Applied', effect: { prNumber: 1, prState: 'merged' } },
    { trigger: 'Webhook' },
    {},
    'write Succeeded',
  ],
  [
    'Verifying in its soak',
    { phase: 'Verifying', observed: { targets: 1, onRevision: 1, ready: 1, soakUntil: ago(-2) } },
    there,
    { soak: '5s' },
    'wait - 2',
  ],
  [
    'Verifying after its soak',
    { phase: 'Verifying', observed: { targets: 1, onRevision: 1, ready: 1, soakUntil: ago(0) } },
    there,
    {},
    'write Succeeded',
  ],
  ['Verifying, a target left', { phase: 'Verifying' }, {}, {}, 'write Applied'],
  [
    'Verifying, a target unreachable',
    { phase: 'Verifying' },
    { environment: { name: 'prod', targets: [target('unreachable')] } },
    {},
    'wait - -',
  ],
  ['Queued, environment removed', { phase: 'Queued' }, { environment: null }, {}, 'write Aborted'],
  ['Queued, promotion spec removed', { phase: 'Queued' }, { policy: null }, {}, 'write Aborted'],
  ['Applied, abort asked for', { phase: 'Applied', ...pr, abort: { subject: 'user:a', at: ago(1) } }, {}, {}, 'withdraw Aborted'],
  ['Succeeded', { phase: 'Succeeded' }, {}, {}, 'wait - -'],
] as [string, PromotionStatus, Partial<AdvanceContext>, Partial<PromotionRecord['spec']>, string][])(
  '%s',
  (_what, status, more, spec, expected) => {
    expect(next(status, more, spec)).toBe(expected)
  },
)

const failed = (
  className: 'transient' | 'rate-limited' | 'configuration' | 'refusal',
  attemptCount: number,
  more: Partial<PromotionStatus> = {},
) => {
  const running = beginAttempt({ phase: 'Queued', attemptCount: attemptCount - 1, ...more }, nowMs)
  const status = afterFailure(
    running,
    { attempts: 3, attemptAge: '24h' },
    { class: className, reason: 'R', message: 'm', retryAfterMs: 7000 },
    { nowMs, delayMs: 5000 },
  )
  const due = status.nextAttemptAt === undefined ? null : (Date.parse(status.nextAttemptAt) - nowMs) / 1000
  return [status.phase, status.attemptCount, due]
}

test.each([
  ['transient', 1, {}, ['Queued', 1, 5]],
  ['transient', 3, {}, ['Errored', 3, null]],
  ['transient', 2, { firstAttemptAt: ago(86_400) }, ['Errored', 2, null]],
  ['rate-limited', 3, {}, ['Queued', 2, 7]],
  ['configuration', 1, {}, ['Blocked', 1, null]],
  ['refusal', 1, {}, ['Failed', 1, null]],
] as const)('a %s failure of attempt %i gives its next phase', (className, count, more, expected) => {
  expect(failed(className, count, more)).toEqual(expected)
})

test('an attempt that a crash interrupted is resumed under its number', () => {
  const running = beginAttempt({ phase: 'Queued' }, nowMs)
  expect(beginAttempt(running, nowMs + 5000)).toBe(running)
})

test('a block that ends lets attempts and their age count anew', () => {
  const blocked = record({ phase: 'Blocked', phaseSince: ago(1800), attemptCount: 3, firstAttemptAt: ago(90_000) })
  const step = advancePromotion(blocked, context())
  const status = 'status' in step ? step.status : {}
  expect([status.phase, status.attemptCount, status.firstAttemptAt]).toEqual(['Queued', 0, undefined])
})

test('[C12] a soak that restarts after the clock was set back ends after its time', () => {
  const soaking = { phase: 'Verifying', observed: { targets: 1, onRevision: 1, ready: 1, soakUntil: ago(-3600) } } as const
  const step = advancePromotion(record(soaking, { soak: '5s' }), context(there))
  expect('status' in step && step.status.observed?.soakUntil).toBe(ago(-5))
})
