import { expect, test } from 'vitest'
import type { WatchEvent } from './kube.ts'
import { takeEvents } from './watch-event.ts'

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

test('lines that came together are taken together', () => {
  const { names, thrown, portions } = take(line('a'), line('b'), line('c'))
  expect([names, thrown]).toEqual([[['a', 'b', 'c']], undefined])
  expect(portions[0]?.[0]?.object).toMatchObject(KIND)
  expect(take()).toMatchObject({ names: [], thrown: undefined })
})

test.each([
  ['no JSON', '}{', 'watch: an event of 2 characters is not JSON'],
  ['no event', '{"type":"STRANGE"}', 'watch: "STRANGE" is not an event we know'],
  ['two values', `${line('x')},${line('y')}`, 'is not JSON'],
  ['brackets that close ours', `${line('x')}],[${line('y')}`, 'is not JSON'],
  ['refusal of the server', '{"type":"ERROR","object":{"code":410,"reason":"Expired","message":"too old"}}', 'watch: too old'],
])('what came before a line that is bad is taken, and the bad one told: %s', (_name, bad, message) => {
  const { names, thrown } = take(line('a'), line('b'), bad, line('c'))
  expect(names).toEqual([['a', 'b']])
  expect(thrown).toContain(message)
})

test('two halves do not make a whole', () => {
  expect(take('{"type":"ADDED"', '"object":{"metadata":{}}}')).toMatchObject({
    names: [],
    thrown: 'watch: an event of 15 characters is not JSON',
  })
})

test('integers of 64 bits keep every digit, alone and among others', () => {
  const big = line('a', ',"big":9223372036854775807')
  for (const lines of [[big], [big, line('b')]]) expect(take(...lines).portions[0]?.[0]?.object['big']).toBe(9223372036854775807n)
})
