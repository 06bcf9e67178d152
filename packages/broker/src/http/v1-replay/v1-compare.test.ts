// The comparison behind the replay notices what it is there for.
import { expect, test } from 'vitest'
import { compareAnswer } from './v1-compare.fixture.ts'
import { createBindings, type Difference, type Exchange } from './v1-exchange.fixture.ts'
import { expectationOf } from './v1-expectation.fixture.ts'

const id = (n: number) => `00000000-0000-7000-8000-00000000000${n}`
const recorded: Exchange = {
  seq: 1,
  op: 'list_stacks',
  case: 'success',
  as: 'admin',
  method: 'GET',
  path: '/api/v1/stacks',
  status: 200,
  content_type: 'application/json',
  response_body: [
    { id: '<uuid:1>', name: 'a', description: null, at: '<ts>' },
    { id: '<uuid:2>', name: 'b', description: 'x', at: '<ts>' },
  ],
}
const rows = [
  { id: id(1), name: 'a', description: null, at: '2026-01-01T00:00:00.000000Z' },
  { id: id(2), name: 'b', description: 'y', at: '2026-01-01T00:00:00.000000Z' },
]
const compare = (body: unknown, options: { status?: number; type?: string; differences?: Difference[] } = {}) =>
  compareAnswer(
    createBindings({ '<uuid:2>': id(2) }, () => ''),
    expectationOf(recorded, options.differences ?? [], () => recorded),
    {
      status: options.status ?? 200,
      headers: { 'content-type': options.type ?? 'application/json; charset=utf-8' },
      text: JSON.stringify(body),
    },
  )
const differs = (field: Difference['field'], ours: string): Difference[] => [{ id: 'd', seq: [1], field, ours, why: '' }]

test('rows that differ in messages and times are equal', () => expect(compare(rows)).toEqual([]))

test.each<[string, unknown, { status?: number; type?: string; differences?: Difference[] }]>([
  ['another status', rows, { status: 201 }],
  ['another content type', rows, { type: 'text/plain' }],
  ['a row too few', [rows[0]], {}],
  ['a row too many', [...rows, { ...rows[0], id: id(3) }], {}],
  ['another order', [rows[1], rows[0]], {}],
  ['null left out', [{ ...rows[0], description: undefined }, rows[1]], {}],
  ['a key nobody knows', [{ ...rows[0], surprise: 1 }, rows[1]], {}],
  ['another type', [rows[0], { ...rows[1], description: 5 }], {}],
  ['a time with three digits', [rows[0], { ...rows[1], at: '2026-01-01T00:00:00.000Z' }], {}],
  ['an id that is known to be another', [rows[0], { ...rows[1], id: id(9) }], {}],
  ['a name that is not echoed', [{ ...rows[0], name: 'z' }, rows[1]], {}],
  ['rows where none were expected', rows, { differences: differs('body', 'empty list') }],
  ['a success where a refusal was expected', rows, { differences: differs('status', '403 forbidden') }],
  ['a header that is missing', rows, { differences: differs('header', '+X-Brokkr-*') }],
])('%s is noticed', (_, body, options) => expect(compare(body, options)).not.toEqual([]))

test.each<[string, unknown, Difference[]]>([
  ['order', [rows[1], rows[0]], differs('order', 'name')],
  ['without', [rows[0]], differs('body', 'without <uuid:2>')],
  ['with n more', [...rows, { ...rows[0], id: id(3), name: 'c' }], differs('body', 'with 1 more')],
  ['any', { surprise: 1 }, differs('body', 'any')],
])('the difference "%s" is taken into account', (_, body, differences) => expect(compare(body, { differences })).toEqual([]))
