import { expect, test } from 'vitest'
import { KubeError, type KubeReason } from '../client/kube-error.ts'
import { planRecovery } from './informer-recovery.ts'

const watching = { listing: false, streams: true, failures: 0 }
const listing = { listing: true, streams: true, failures: 0 }

test.each<[KubeReason, typeof watching, boolean, boolean, boolean]>([
  ['Unreachable', watching, true, true, true],
  ['TimedOut', watching, true, true, true],
  ['TooManyRequests', watching, true, true, true],
  ['ServiceUnavailable', watching, true, true, true],
  ['Expired', watching, false, false, true],
  ['Gone', watching, false, false, true],
  ['Expired', { ...watching, failures: 1 }, false, true, true],
  ['BadAnswer', watching, false, true, true],
  ['Forbidden', watching, false, true, true],
  ['Unauthorized', watching, false, true, true],
  ['UnknownKind', listing, false, true, true],
  ['Unreachable', listing, false, true, true],
  ['Invalid', listing, false, false, false],
  ['BadRequest', listing, false, false, false],
  ['TimedOut', listing, false, false, false],
  ['Invalid', { ...listing, streams: false }, false, true, false],
])('%s while %o: resume %s, pause %s, streams %s', (reason, before, resume, pause, streams) => {
  expect(planRecovery(new KubeError('x', { reason }), before)).toEqual({ resume, pause, streams })
})

test('an error that is not a KubeError causes a pause and a new list', () => {
  expect(planRecovery(new Error('a bug'), watching)).toEqual({ resume: false, pause: true, streams: true })
})
