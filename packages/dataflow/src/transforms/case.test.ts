import fc from 'fast-check'
import { expect, test } from 'vitest'
import { chainOf, recordsOf, run, runChain, runText, step } from '../processor/test-parts/chains.ts'
import { toCamelCase } from './camel-case.ts'
import { toSnakeCase } from './snake-case.ts'

const renamed = (type: string, keys: string[]) => keys.map((key) => Object.keys(run(step(type), { json: { [key]: 1 } })[0] as object)[0])

test('[D24] snakeCase renames keys', () => {
  const keys = ['firstName', 'FirstName', 'userName', 'userID123', 'XMLHttpRequest', 'iPhone15Pro', 'first_name', 'name', '', 'my-Key']
  expect(renamed('snakeCase', keys)).toEqual([
    'first_name',
    'first_name',
    'user_name',
    'user_id123',
    'xml_http_request',
    'i_phone15_pro',
    'first_name',
    'name',
    '',
    'my-key',
  ])
})

test('[D25] snakeCase renames the root or every level and counts collisions', () => {
  const payload = '{"userName":{"firstName":"a"},"l":[{"aB":1}]}'
  expect(run(step('snakeCase'), payload)).toEqual([{ user_name: { firstName: 'a' }, l: [{ aB: 1 }] }])
  expect(run(step('snakeCase', { deep: true }), payload)).toEqual([{ user_name: { first_name: 'a' }, l: [{ a_b: 1 }] }])
  for (const deep of [false, true]) {
    expect(runText(step('snakeCase', { deep }), '{ }')).toBe('{ }')
    expect(runText(step('snakeCase', { deep }), '{"userName":')).toBe('{"userName":')
    const chain = chainOf(step('snakeCase', { deep }))
    expect(recordsOf(runChain(chain, '{"userName":1,"user_name":2}'))[0]!.json).toEqual({ user_name: 2 })
    expect(chain.counts[0]!.keyCollisions).toBe(1)
  }
})

test('[D26] camelCase renames keys', () => {
  const keys = ['first_name', 'name', 'user_id_123', 'name_', 'user__name', 'FirstName', '', '___']
  expect(renamed('camelCase', keys)).toEqual(['FirstName', 'Name', 'UserId123', 'Name', 'UserName', 'FirstName', '', '___'])
})

test('[D27] camelCase supports deep and a lower first letter', () => {
  const payload = '{"first_name":"J","address":{"zip_code":"1"},"items":[{"item_id":1}]}'
  expect(run(step('camelCase'), payload)).toEqual([{ FirstName: 'J', Address: { zip_code: '1' }, Items: [{ item_id: 1 }] }])
  expect(run(step('camelCase', { deep: true }), payload)).toEqual([{ FirstName: 'J', Address: { ZipCode: '1' }, Items: [{ ItemId: 1 }] }])
  expect(run(step('camelCase', { deep: true, style: 'lower' }), payload)).toEqual([
    { firstName: 'J', address: { zipCode: '1' }, items: [{ itemId: 1 }] },
  ])
})

test('a root array is renamed only with deep; values and order are unchanged', () => {
  expect(runText(step('snakeCase'), '[{"aB":1}]')).toBe('[{"aB":1}]')
  expect(run(step('snakeCase', { deep: true }), '[{"aB":1}]')).toEqual([[{ a_b: 1 }]])
  expect(runText(step('snakeCase'), '{"zZ":"aB","aA":2,"m":3}')).toBe('{"z_z":"aB","a_a":2,"m":3}')
  expect(runText(step('snakeCase', { deep: true }), '{"__proto__":{"aB":1},"cD":1}')).toBe('{"__proto__":{"a_b":1},"c_d":1}')
})

test('a payload without renamed keys passes unchanged', () => {
  expect(runText(step('snakeCase', { deep: true }), '{"a_b": {"c": [1.50]}}')).toBe('{"a_b": {"c": [1.50]}}')
  expect(runText(step('camelCase'), '{"A": 1}')).toBe('{"A": 1}')
})

test('an upper-case letter without a lower-case form starts no word', () => {
  expect(toSnakeCase('\u{a72c}\u{1d56c}')).toBe('\u{a72d}\u{1d56c}')
})

test('snakeCase is idempotent and inverts camelCase', () => {
  const word = fc.stringMatching(/^[a-z]{2,6}$/)
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.array(word, { minLength: 1, maxLength: 4 }), (key, words) => {
      expect(toSnakeCase(toSnakeCase(key))).toBe(toSnakeCase(key))
      expect(toSnakeCase(toCamelCase(words.join('_'), 'lower'))).toBe(words.join('_'))
    }),
  )
})

test('keys beyond the cache limit are renamed too', () => {
  const chain = chainOf(step('snakeCase'))
  for (let i = 0; i < 10_050; i += 1) expect(recordsOf(runChain(chain, `{"k${i}X":1}`))[0]!.json).toEqual({ [`k${i}_x`]: 1 })
})
