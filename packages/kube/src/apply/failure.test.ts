import { expect, test } from 'vitest'
import { KubeError } from '../client/kube-error.ts'
import { toKubeError } from '../client/response-error.ts'
import { classifyFailure } from './failure.ts'

const answer = (status: number, body: Record<string, unknown> = {}, headers: Record<string, string> = {}) =>
  toKubeError('PATCH x', {
    status,
    headers: { 'content-type': 'application/json', ...headers },
    text: JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', code: status, ...body }),
  })

const caused = (reason: string, field: string, message: string) => ({ details: { causes: [{ reason, field, message }] } })

test.each([
  [answer(422, { reason: 'Invalid', ...caused('FieldValueInvalid', 'spec.x', 'Required value') }), 'invalid', false],
  [answer(422, { reason: 'Invalid', ...caused('FieldValueInvalid', 'spec.selector', 'field is immutable') }), 'immutable_field', false],
  [
    answer(422, { reason: 'Invalid', message: "updates to statefulset spec for fields other than 'replicas' are forbidden" }),
    'immutable_field',
    false,
  ],
  [answer(422, { reason: 'Invalid', message: "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no" }), 'denied', false],
  [answer(400, { reason: 'BadRequest', message: 'strict decoding error: unknown field "spec.x"' }), 'invalid', false],
  [answer(400, { message: 'admission webhook "a.b" denied the request: no' }), 'denied', false],
  [answer(413), 'invalid', false],
  [answer(415), 'invalid', false],
  [answer(404, { reason: 'NotFound', details: { name: 'web', kind: 'namespaces' } }), 'missing_namespace', false],
  [answer(404, { reason: 'NotFound', details: {} }), 'missing_kind', false],
  [answer(404, { reason: 'NotFound', details: { name: 'a', kind: 'configmaps' } }), 'gone', false],
  [new KubeError('x', { reason: 'UnknownKind' }), 'missing_kind', false],
  [answer(403, { reason: 'Forbidden', message: 'User "u" cannot patch resource "deployments" in API group "apps"' }), 'forbidden', false],
  [answer(403, { reason: 'Forbidden', message: 'pods "a" is forbidden: violates PodSecurity "restricted:latest": x' }), 'denied', false],
  [answer(403, { reason: 'Forbidden', message: 'exceeded quota: q, requested: pods=1' }), 'denied', false],
  [
    answer(403, { reason: 'Forbidden', ...caused('NamespaceTerminating', 'metadata.namespace', 'is being terminated') }),
    'namespace',
    false,
  ],
  [answer(401, { reason: 'Unauthorized' }), 'forbidden', false],
  [answer(409, { reason: 'AlreadyExists' }), 'conflict', false],
  [answer(409, { reason: 'Conflict' }), 'conflict', false],
  [answer(408), 'unavailable', true],
  [answer(429), 'unavailable', true],
  [answer(500), 'unavailable', true],
  [answer(502), 'unavailable', true],
  [answer(503), 'unavailable', true],
  [answer(504), 'unavailable', true],
  [new KubeError('x', { reason: 'Unreachable' }), 'unavailable', true],
  [new KubeError('x', { reason: 'TimedOut' }), 'unavailable', true],
  [new KubeError('x', { reason: 'Untrusted' }), 'unavailable', false],
  [new Error('a bug'), 'unavailable', true],
])('%s maps to %s, retryable: %s', (error, code, retryable) => {
  expect(classifyFailure(error)).toMatchObject({ code, retryable })
})

test('a field conflict names managers and fields', () => {
  const causes = [
    { reason: 'FieldManagerConflict', message: 'conflict with "kubectl-edit" using apps/v1', field: '.spec.replicas' },
    { reason: 'FieldManagerConflict', message: 'conflict with "hpa"', field: '.spec.template' },
  ]
  expect(classifyFailure(answer(409, { reason: 'Conflict', details: { causes } }))).toMatchObject({
    code: 'field_conflict',
    retryable: false,
    conflicts: [
      { manager: 'kubectl-edit', field: '.spec.replicas' },
      { manager: 'hpa', field: '.spec.template' },
    ],
  })
})

test('Retry-After is read from the header and from the details', () => {
  expect(answer(429, {}, { 'retry-after': '3' }).retryAfterMs).toBe(3000)
  expect(answer(503, { details: { retryAfterSeconds: 2 } }).retryAfterMs).toBe(2000)
  expect(answer(503).retryAfterMs).toBeUndefined()
})

test.each([
  [200, 'text/html', '<html>', 'BadAnswer'],
  [302, 'text/html', '', 'BadAnswer'],
  [404, 'text/html', '<html>', 'BadAnswer'],
  [502, 'text/html', '<html>', 'ServiceUnavailable'],
  [404, 'text/plain', '404 page not found', 'NotFound'],
  [429, 'text/plain', 'Too many requests', 'TooManyRequests'],
  [503, 'application/json', 'not json', 'ServiceUnavailable'],
])('a response %i %s without a Status becomes a typed error', (status, type, text, reason) => {
  expect(toKubeError('GET x', { status, headers: { 'content-type': type }, text })).toMatchObject({ reason, status })
})
