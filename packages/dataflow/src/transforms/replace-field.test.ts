import { expect, test } from 'vitest'
import { failure, rulesBroken, run, runText, step } from '../processor/test-parts/chains.ts'

const replace = (config: Record<string, unknown>) => step('replaceField', config)
const rename = (...renames: string[]) => replace({ renames })

test('[D33] replaceField renames fields', () => {
  expect(run(rename('oldName:newName'), '{"oldName":1}')).toEqual([{ newName: 1 }])
  expect(run(rename('oldName:new.path'), '{"oldName":1}')).toEqual([{ new: { path: 1 } }])
  expect(run(rename('$.key.sku:sku'), '{"key":{"sku":"1"},"o":2}')).toEqual([{ sku: '1', o: 2 }])
  expect(runText(rename('o:o'), '{"key":{"sku":"1"}, "o":2}')).toBe('{"key":{"sku":"1"}, "o":2}')
  expect(rulesBroken(rename('invalid-format'))).toEqual(['V15'])
})

test('[D34] include preserves nesting, exclude removes emptied parents', () => {
  const payload = '{"a":{"b":1,"c":2},"d":3}'
  expect(run(replace({ include: ['a.b'] }), payload)).toEqual([{ a: { b: 1 } }])
  expect(run(replace({ exclude: ['a.b', 'a.c'] }), payload)).toEqual([{ d: 3 }])
  expect(rulesBroken(replace({ include: ['a'], exclude: ['b'] }))).toEqual(['V16'])
  expect(rulesBroken(replace({}))).toEqual(['V16'])
})

test('include supports arrays, queries, wildcards and no match', () => {
  const payload = '{"l":[{"a":1,"b":2},{"b":3},{"a":4}],"k1":1,"k2":2,"o":{"x":{"y":1},"z":2}}'
  expect(run(replace({ include: ['l.#.a'] }), payload)).toEqual([{ l: [{ a: 1 }, { a: 4 }] }])
  expect(run(replace({ include: ['l.1', 'l.0.b'] }), payload)).toEqual([{ l: [{ b: 2 }, { b: 3 }] }])
  expect(run(replace({ include: ['l.#(b>1).b', 'k*'] }), payload)).toEqual([{ l: [{ b: 2 }], k1: 1, k2: 2 }])
  expect(run(replace({ include: ['l.#(b>1)#.b'] }), payload)).toEqual([{ l: [{ b: 2 }, { b: 3 }] }])
  expect(run(replace({ include: ['o', 'o.x.y'] }), payload)).toEqual([{ o: { x: { y: 1 }, z: 2 } }])
  expect(run(replace({ include: ['zz'] }), payload)).toEqual([{}])
})

test('exclude does not remove parents that were empty before', () => {
  expect(run(replace({ exclude: ['l.#.x', 'e.x'] }), '{"l":[{"x":1},{"y":2}],"e":{}}')).toEqual([{ l: [{}, { y: 2 }], e: {} }])
  expect(run(replace({ exclude: ['a.b.c'] }), '{"a":{"b":{"c":1}},"d":1}')).toEqual([{ d: 1 }])
})

test('renames run last, in order', () => {
  expect(run(replace({ include: ['a'], renames: ['a:b', 'b:c'] }), '{"a":1,"b":2}')).toEqual([{ c: 1 }])
  expect(run(rename('a:a.b'), '{"a":1}')).toEqual([{ a: { b: 1 } }])
  expect(run(rename('a:b', 'zz:y'), '{"a":null,"b":2}')).toEqual([{ b: null }])
  expect(run(rename('x\\:y:z'), '{"x:y":1}')).toEqual([{ z: 1 }])
  expect(failure(rename('a:b.c'), '{"a":1,"b":2}')).toBe('replaceField: b.c: a parent is neither an object nor an array')
  expect(runText(rename('zz:y'), '{"a": 1}')).toBe('{"a": 1}')
  expect(runText(rename('a:b'), '[1, 2]')).toBe('[1, 2]')
  expect(rulesBroken(rename('a.#.b:c'))).toEqual(['V12'])
})
