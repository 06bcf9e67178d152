import { format, inspect } from 'node:util'
import { expect, test } from 'vitest'
import { Secret } from './secret.ts'

const secret = new Secret('hunter2')

test.each([
  ['String', String(secret)],
  ['a template', `${secret}`],
  ['concatenation', 'x' + (secret as unknown as string)],
  ['JSON', JSON.stringify({ secret, list: [secret] })],
  ['inspect', inspect({ secret }, { depth: 9, showHidden: true })],
  ['format', format('%s %o %j', secret, secret, secret)],
  ['its own properties', JSON.stringify(Object.assign({}, secret))],
  ['structuredClone', inspect(structuredClone(secret))],
  ['an error message', new Error(`bad ${secret}`).message],
])('%s does not show the value', (_way, printed) => {
  expect(printed).not.toContain('hunter2')
})

test('a secret prints as *** and is returned only by reveal', () => {
  expect([String(secret), JSON.stringify(secret), inspect(secret)]).toEqual(['***', '"***"', '***'])
  expect(secret.reveal()).toBe('hunter2')
})

test('two secrets are compared by their text', () => {
  expect(secret.equals(new Secret('hunter2'))).toBe(true)
  expect(secret.equals(new Secret('hunter3'))).toBe(false)
  expect(secret.equals(new Secret(''))).toBe(false)
})
