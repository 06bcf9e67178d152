import { expect, test } from 'vitest'
import { Conflict, errorText, isRetryable, NotFound, Retryable, Terminal, toError } from './errors.ts'

const reset = Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' })

test.each([
  ['a Retryable', new Retryable('x'), true],
  ['a Terminal', new Terminal('x'), false],
  ['a NotFound', new NotFound('stack', '1'), false],
  ['a Conflict', new Conflict('x'), false],
  ['a connection that was reset', reset, true],
  ['a wrapped reset', new Error('list pods', { cause: reset }), true],
  ['a Terminal around a reset: who classified it knew better', new Terminal('x', { cause: reset }), false],
  ['a Retryable deep in the chain', new Error('a', { cause: new Error('b', { cause: new Retryable('c') }) }), true],
  ['a bug', new TypeError('x is not a function'), false],
  ['a thrown string', 'oops', false],
  ['nothing', undefined, false],
])('%s is retryable: %3$s', (_what, error, expected) => {
  expect(isRetryable(error)).toBe(expected)
})

test('each kind carries its name, cause and code', () => {
  const cause = new Error('beneath')
  const error = new Retryable('call the forge', { cause, code: 'overloaded', afterMs: 500 })
  expect(error).toMatchObject({ name: 'Retryable', message: 'call the forge', cause, code: 'overloaded', afterMs: 500 })
  expect(new NotFound('stack', '42')).toMatchObject({
    name: 'NotFound',
    message: 'stack 42 does not exist',
    kind: 'stack',
    id: '42',
    code: undefined,
  })
  expect('cause' in new Terminal('x')).toBe(false)
})

test('errorText contains the whole cause chain once and ends at a cycle', () => {
  const circle = new Error('outer')
  circle.cause = new Error('inner', { cause: circle })
  expect(errorText(new Terminal('apply web', { cause: new Error('apply web', { cause: new Error('refused') }) }))).toBe(
    'apply web: refused',
  )
  expect(errorText(circle)).toMatch(/^outer: inner: outer/)
})

test('toError keeps errors and wraps everything else', () => {
  expect(toError(reset)).toBe(reset)
  expect(toError('text').message).toBe('text')
  expect(toError({ password: 'x' }).message).toBe('thrown value of type object')
})
