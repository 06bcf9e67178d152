import { expect, test } from 'vitest'
import type { WatchEvent } from '../client/kube.ts'
import { takeEvents } from './watch-events.ts'

const KIND = { apiVersion: 'v1', kind: 'ConfigMap' }
const line = (name: string, more = '') => `{"type":"ADDED","object":{"metadata":{"name":"${name}"}${more}}}`

/** What was taken, portion by portion, and the message of what was thrown. */
function take(...lines: string[]) {
  const portions: WatchEvent[][] = []
  let thrown: string | undefined
  try {
    takeEvents('watch', lines, KIND, (events) => portions.push(events))
  } catch (error) {
    thrown = (error as Error).message
  }
  return { names: portions.map((events) => events.map(({ object }) => object.metadata.name)), thrown, portions }
}

test('lines that arrive together are passed on together', () => {
  const { names, thrown, portions } = take(line('a'), line('b'), line('c'))
  expect([names, thrown]).toEqual([[['a', 'b', 'c']], undefined])
  expect(portions[0]?.[0]?.object).toMatchObject(KIND)
  expect(take()).toMatchObject({ names: [], thrown: undefined })
})

test.each([
  ['no JSON', '}{', 'watch: an event of 2 characters is not JSON'],
  ['no event', '{"type":"STRANGE"}', 'watch: "STRANGE" is not a known event'],
  ['two values', `${line('x')},${line('y')}`, 'is not JSON'],
  ['brackets that close ours', `${line('x')}],[${line('y')}`, 'is not JSON'],
  ['refusal of the server', '{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"too old"}}', 'watch: too old'],
])('events before an invalid line are passed on before its error: %s', (_name, bad, message) => {
  const { names, thrown } = take(line('a'), line('b'), bad, line('c'))
  expect(names).toEqual([['a', 'b']])
  expect(thrown).toContain(message)
})

test('two incomplete lines are not joined', () => {
  expect(take('{"type":"ADDED"', '"object":{"metadata":{}}}')).toMatchObject({
    names: [],
    thrown: 'watch: an event of 15 characters is not JSON',
  })
})

test('64-bit integers keep every digit', () => {
  const big = line('a', ',"big":9223372036854775807')
  for (const lines of [[big], [big, line('b')]]) expect(take(...lines).portions[0]?.[0]?.object['big']).toBe(9223372036854775807n)
})
