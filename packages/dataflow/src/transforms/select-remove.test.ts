import { expect, test } from 'vitest'
import { run, runText, step } from '../processor/test-parts/chains.ts'

const select = (...fields: string[]) => step('select', { fields })
const remove = (...fields: string[]) => step('remove', { fields })

test('[D11] select applies only if its payload condition is true', () => {
  const selected = step('select', { fields: ['id'] }, { when: "$.payload.op == 'u' || $.payload.op == 'c'" })
  expect(run(selected, '{"id":1,"payload":{"op":"u"}}')).toEqual([{ id: 1 }])
  expect(runText(selected, '{"id":1, "payload":{"op":"d"}}')).toBe('{"id":1, "payload":{"op":"d"}}')
})

test('[D22] select stores values under the last key of their paths', () => {
  const payload = '{"id":1,"u":{"name":"a","id":2},"items":[{"a":1},{"a":2}]}'
  expect(run(select('id', 'u.name'), payload)).toEqual([{ id: 1, name: 'a' }])
  expect(run(select('id', '$.u.id'), payload)).toEqual([{ id: 2 }])
  expect(run(select('items.#.a'), payload)).toEqual([{ a: [1, 2] }])
  expect(run(select('zz'), payload)).toEqual([{}])
})

test('select names lengths, elements and wildcard matches, for any root', () => {
  expect(run(select('l.#', 'm.0', 'n*'), '{"l":[1,2],"m":["x"],"nine":9}')).toEqual([{ l: 2, m: 'x', nine: 9 }])
  expect(run(select('#.a', '1.b'), '[{"a":1},{"b":2}]')).toEqual([{ a: [1], b: 2 }])
  expect(runText(select('__proto__'), '{"__proto__":1}')).toBe('{"__proto__":1}')
})

test('a value that is selected twice is not shared', () => {
  expect(run([select('u', 'u.o'), step('mask', { fields: ['u.o.x'] })], '{"u":{"o":{"x":1}}}')).toEqual([
    { u: { o: { x: '***' } }, o: { x: 1 } },
  ])
})

test('[D23] remove deletes keys and elements', () => {
  expect(run(remove('u.p'), '{"u":{"p":1}}')).toEqual([{ u: {} }])
  expect(run(remove('a.1'), '{"a":[1,2,3]}')).toEqual([{ a: [1, 3] }])
  expect(run(remove('l.#.x'), '{"l":[{"x":1,"y":2},{"x":3},4]}')).toEqual([{ l: [{ y: 2 }, {}, 4] }])
  expect(runText(remove('b.c'), '{"a" :1}')).toBe('{"a" :1}')
})

test('remove supports several paths, queries, wildcards and any root', () => {
  expect(run(remove('a', 'b', 'c.d', 'e'), '{"a":1,"b":2,"c":{"d":3,"k":4},"e":5,"f":6}')).toEqual([{ c: { k: 4 }, f: 6 }])
  expect(run(remove('l.#(x>1)'), '{"l":[{"x":1},{"x":2},{"x":3}]}')).toEqual([{ l: [{ x: 1 }, { x: 3 }] }])
  expect(run(remove('l.#(x>1)#'), '{"l":[{"x":1},{"x":2},{"x":3}]}')).toEqual([{ l: [{ x: 1 }] }])
  expect(run(remove('l.#(x>1)#.y'), '{"l":[{"x":1,"y":1},{"x":2,"y":1}]}')).toEqual([{ l: [{ x: 1, y: 1 }, { x: 2 }] }])
  expect(run(remove('k*'), '{"k1":1,"k2":2,"l":3}')).toEqual([{ l: 3 }])
  expect(run(remove('0', '#.a'), '[1,{"a":1,"b":2}]')).toEqual([[{ b: 2 }]])
  expect(runText(remove('a', '__proto__'), '{"__proto__":{"x":1},"a":1,"b":2}')).toBe('{"b":2}')
  expect(runText(remove('a'), '{"__proto__":{"x":1},"a":1}')).toBe('{"__proto__":{"x":1}}')
})
