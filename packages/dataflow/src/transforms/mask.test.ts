import { describe, expect, test } from 'vitest'
import { failure, run, runText, step } from '../processor/test-parts/chains.ts'

const mask = (fields: string[], more = {}) => step('mask', { fields, ...more })

test('[D10] mask applies only if its metadata condition is true', () => {
  const masked = step('mask', { fields: ['email'] }, { when: "metadata.topic == 'orders'" })
  const payload = '{"email": "a@b"}'
  expect(runText(masked, payload, { metadata: { topic: 'users' } })).toBe(payload)
  expect(run(masked, payload, { metadata: { topic: 'orders' } })).toEqual([{ email: '***' }])
})

test('[D17] mask handles nested and missing paths, lengths and objects', () => {
  expect(run(mask(['u.email', 'nope']), '{"u":{"email":"a@b"},"x":1}')).toEqual([{ u: { email: '***' }, x: 1 }])
  expect(run(mask(['card', 'pin'], { keepLength: true }), '{"card":4111,"pin":null}')).toEqual([{ card: '****', pin: '' }])
  expect(run(mask(['name'], { keepLength: true }), '{"name":"Юля"}')).toEqual([{ name: '***' }])
  expect(run(mask(['$.u[*].m']), '{"u":[{"m":"a@b"},{"m":"c"}]}')).toEqual([{ u: [{ m: '***' }, { m: '***' }] }])
  expect(run(mask(['o']), '{"o":{"a":1}}')).toEqual([{ o: '***' }])
})

test('[D18] every spelling of a path masks the value', () => {
  for (const path of ['users.#.email', 'users[*].email', '$.users.0.email', 'users.#(id==1)#.email']) {
    const text = runText(mask(['password', 'nope', path]), '{"password":"p","users":[{"id":1,"email":"e"}]}')
    expect(JSON.parse(text!)).toEqual({ password: '***', users: [{ id: 1, email: '***' }] })
    expect(text).not.toMatch(/"(p|e)"/)
  }
})

describe('a payload that cannot be read', () => {
  const cut = '{"password":"x'
  test('is an error, without its text', () => {
    expect(failure(mask(['password']), cut)).toBe('mask: $: is not JSON')
    expect(failure(mask(['password']), Uint8Array.of(0x22, 0xff, 0x22))).toBe('mask: $: is not JSON')
    expect(failure(mask(['password']), `{"password":"x","d":${'['.repeat(2000)}${']'.repeat(2000)}}`)).toBe('mask: $: is nested too deep')
  })
  test('passes with onNonJson pass unless it is nested too deep', () => {
    expect(runText(step('mask', { fields: ['password'] }, { onNonJson: 'pass' }), cut)).toBe(cut)
    expect(failure(step('mask', { fields: ['password'] }, { onNonJson: 'pass' }), '['.repeat(5000))).toBe('mask: $: is nested too deep')
    expect(failure(step('mask', { fields: ['password'] }, { when: 'password' }), '['.repeat(5000))).toBe('mask: $: is nested too deep')
  })
  test('a message without a value has nothing to mask', () => {
    expect(runText(mask(['password']), undefined)).toBeNull()
  })
})

test('a query matches original values in any order of paths', () => {
  const people = '{"users":[{"id":1,"email":"e"},{"id":2,"email":"f"}]}'
  for (const paths of [
    ['users.#.id', 'users.#(id==1)#.email'],
    ['users.#(id==1)#.email', 'users.#.id'],
    ['users.#(email=="e").id', 'users.#(id==1).email'],
  ])
    expect((run(mask(paths), people) as { users: { email: string }[] }[])[0]!.users[0]!.email).toBe('***')
})

test('mask counts code points and masks every match of a wildcard', () => {
  expect(run(mask(['a'], { keepLength: true, maskChar: 'ab' }), '{"a":"😀é"}')).toEqual([{ a: 'abab' }])
  expect(run(mask(['a'], { keepLength: true }), '{"a":{"b":[1]}}')).toEqual([{ a: '*********' }])
  expect(run(mask(['p*.x', '#.y']), '{"p1":{"x":1},"p2":{"x":2},"q":{"x":3}}')).toEqual([
    { p1: { x: '***' }, p2: { x: '***' }, q: { x: 3 } },
  ])
  expect(run(mask(['#.y', '1']), '[{"y":1},2,{"y":3}]')).toEqual([[{ y: '***' }, '***', { y: '***' }]])
  expect(run(mask(['__proto__.a', 'constructor']), '{"__proto__":{"a":"secret"},"constructor":"c"}').map((r) => JSON.stringify(r))).toEqual(
    ['{"__proto__":{"a":"***"},"constructor":"***"}'],
  )
})

test('a message without a match passes unchanged', () => {
  expect(runText(mask(['nope', 'a.b']), '{"a" : 1.0}')).toBe('{"a" : 1.0}')
})
