import { createHash, createHmac } from 'node:crypto'
import { ApiError } from '@brokkr/contract/errors.ts'
import { expect, test } from 'vitest'
import { requirePipelinesSuccess, requirePreviewSuccess, signRequest } from './rules.ts'

const answer = (status: number, text = '', retryAfter: string | null = null) => ({ status, text, retryAfter, nextCursor: null })

function refusal(act: () => unknown) {
  try {
    act()
  } catch (error) {
    if (error instanceof ApiError)
      return { code: error.code, status: error.status, message: error.message, details: error.details, retry: error.retryAfterSeconds }
    throw error
  }
  return null
}

test.each([200, 201, 202])('an answer with %i passes unchanged', (status) => {
  expect(requirePipelinesSuccess(answer(status, '{"a":1}'))).toEqual(answer(status, '{"a":1}'))
})

test.each([
  [400, 'the body must be JSON\n', 'validation_failed', 422],
  [400, 'the cursor is not valid\n', 'invalid_cursor', 400],
  [403, 'not an approver\n', 'forbidden', 403],
  [404, 'pipeline shop/x not found\n', 'not_found', 404],
  [409, 'the pipeline is suspended\n', 'promotion_conflict', 409],
  [422, 'there is no environment x\n', 'validation_failed', 422],
  [429, 'too many signed requests\n', 'rate_limited', 429],
])('a refusal %i "%s" of the pipelines program is %s', (status, text, code, expected) => {
  expect(refusal(() => requirePipelinesSuccess(answer(status, text)))).toMatchObject({ code, status: expected, message: text.trim() })
})

test('details and the time to wait of a refusal travel on', () => {
  const text = JSON.stringify({ error: 'does not await approval', currentKey: 'k2' })
  expect(refusal(() => requirePipelinesSuccess(answer(409, text)))).toMatchObject({
    message: 'does not await approval',
    details: { currentKey: 'k2' },
  })
  expect(refusal(() => requirePipelinesSuccess(answer(429, 'wait', '30')))?.retry).toBe(30)
})

test.each([
  [401, 'the signature is not valid\n', /broker\.pipelines_key.*vouching_keys/],
  [500, 'the request failed', /answered 500: the request failed/],
  [503, 'not in the cache yet', /answered 503/],
  [302, '<html>', /answered 302/],
])('an answer %i of the pipelines program is 503', (status, text, message) => {
  expect(refusal(() => requirePipelinesSuccess(answer(status, text)))).toMatchObject({
    code: 'pipelines_unavailable',
    status: 503,
    message: expect.stringMatching(message) as string,
  })
})

test.each([
  [422, '{"problems":["spec.source: missing"],"warnings":[],"previews":[]}', 'validation_failed', 'the flow is invalid'],
  [422, '{"message":"too much time"}', 'validation_failed', 'too much time'],
  [400, '{"message":"samples: too many"}', 'validation_failed', 'samples: too many'],
  [413, '{"message":"too large"}', 'payload_too_large', 'too large'],
  [500, 'oops', 'preview_unavailable', 'the preview program cannot serve the request: it answered 500'],
  [404, '<html>', 'preview_unavailable', 'the preview program cannot serve the request: it answered 404'],
])('an answer %i %s of the preview program is %s', (status, text, code, message) => {
  expect(refusal(() => requirePreviewSuccess(answer(status, text)))).toMatchObject({ code, message })
})

const request = {
  method: 'POST' as const,
  target: '/promotions/shop/checkout-prod-1-1-aaaaaaaa/decision',
  body: '{"decision":"approve"}',
  timestampSeconds: 1_767_225_600,
  nonce: 'b3c1d5e7f9a1b3c5',
}
const key = 'a key of the broker with 32 characters'

test('the signature covers method, target, time, nonce, body and approver', () => {
  const bodyHash = createHash('sha256').update(request.body).digest('hex')
  const text = `POST\n${request.target}\n1767225600\nb3c1d5e7f9a1b3c5\n${bodyHash}\nops`
  expect(signRequest({ ...request, approver: 'ops' }, key)).toEqual({
    'x-signature': `sha256=${createHmac('sha256', key).update(text).digest('hex')}`,
    'x-signature-timestamp': '1767225600',
    'x-signature-nonce': 'b3c1d5e7f9a1b3c5',
    'x-approver': 'ops',
  })
})

test.each([
  ['on call, team a', 'on call, team a'],
  ['Jörg', 'J%C3%B6rg'],
  ['100%', '100%25'],
  ['🙂', '%F0%9F%99%82'],
])('the approver %s is sent as %s', (approver, sent) => {
  expect(signRequest({ ...request, approver }, key)['x-approver']).toBe(sent)
})
