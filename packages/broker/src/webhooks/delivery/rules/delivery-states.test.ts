import { expect, test } from 'vitest'
import { classifyStatusCode, nextState } from './delivery-states.ts'

const failed = (retryAfterSeconds?: number) => ({ is: 'retry', statusCode: 503, error: '', retryAfterSeconds }) as const

test('five tries are five requests: 2, 4, 8 and 16 seconds between them, then dead', () => {
  const states = [0, 1, 2, 3, 4].map((attempts) => nextState(failed(), { attempts, maxRetries: 5 }))
  expect(states.map(({ delaySeconds }) => delaySeconds)).toEqual([2, 4, 8, 16, null])
  expect(states.map(({ status }) => status)).toEqual(['failed', 'failed', 'failed', 'failed', 'dead'])
})

test('none and one retry are one request', () => {
  for (const maxRetries of [0, 1]) expect(nextState(failed(), { attempts: 0, maxRetries }).status).toBe('dead')
})

test('a receiver may ask for more time than that, up to an hour, and not for less', () => {
  const after = (seconds: number) => nextState(failed(seconds), { attempts: 0, maxRetries: 5 }).delaySeconds
  expect([after(1), after(60), after(3600), after(999_999)]).toEqual([2, 60, 3600, 3600])
})

test('a permanent failure is dead at once, and a success ends the delivery', () => {
  expect(nextState({ is: 'permanentFailure', statusCode: 404, error: '' }, { attempts: 0, maxRetries: 5 }).status).toBe('dead')
  expect(nextState({ is: 'delivered', statusCode: 204 }, { attempts: 9, maxRetries: 5 }).status).toBe('success')
})

test.each([
  ['delivered', [200, 201, 204, 299]],
  ['retry', [100, 301, 302, 307, 308, 408, 425, 429, 500, 502, 503, 504, 599]],
  ['permanentFailure', [400, 401, 403, 404, 410, 422, 451, 499]],
] as const)('%s: %j', (meaning, codes) => {
  expect(codes.map(classifyStatusCode)).toEqual(codes.map(() => meaning))
})
