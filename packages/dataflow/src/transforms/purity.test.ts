// What holds for all eighteen transforms: nothing that is shared is ever written to, an owned message gives the same result, digits
// survive, and no payload whatever makes one crash.
import { Buffer } from 'node:buffer'
import type { Json } from '@brokkr/contract/dataflow/language/json.ts'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { type Message, newMessage, workingCopy } from '../message/message.ts'
import { chainOf, nowMs, route, runText, step, textOf } from '../processor/test-parts/chains.ts'
import { transforms } from './index.ts'
import { TransformError } from './transform.ts'

const steps: Record<string, ReturnType<typeof step>[]> = {
  timestamp: [step('timestamp', { fieldName: 'a.at' }), step('timestamp')],
  flatten: [step('flatten', { field: 'a' }), step('flatten', { field: 'b.a' })],
  filter: [step('filter', { condition: 'a || b.#(a>1) || !c' })],
  mask: [step('mask', { fields: ['a', 'b.#.a', 'c.*', '#.a'] }), step('mask', { fields: ['b.#(a!=9)#.c', 'b.#.a'], keepLength: true })],
  router: [step('router', { routes: [route('a', 'x'), route('b.c', 'y')] })],
  select: [step('select', { fields: ['a', 'b.c', 'c', 'b.#.a', '*'] })],
  remove: [step('remove', { fields: ['a', 'b.#.a', 'c.a', '0', 'b.1'] })],
  snakeCase: [step('snakeCase', { deep: true }), step('snakeCase')],
  camelCase: [step('camelCase', { deep: true, style: 'lower' })],
  debeziumUnwrap: [step('debeziumUnwrap', { addOperationFields: true, addSourceFields: ['a'], includeSourceInMetadata: true })],
  replaceField: [
    step('replaceField', { include: ['a', 'b.#.a', 'c.a'] }),
    step('replaceField', { exclude: ['a.b', 'b.#.a'], renames: ['c:d.e', 'a:c'] }),
  ],
  headersToPayload: [step('headersToPayload', { mappings: ['h:a.h', 'h:z'] })],
  structFlatten: [step('structFlatten')],
  extractField: [step('extractField', { field: 'a' })],
  hoistField: [step('hoistField', { field: 'h' })],
  cast: [step('cast', { spec: { a: 'string', 'b.#.a': 'float64', c: null } })],
  timezone: [step('timezone', { timezone: 'Europe/Berlin', fields: ['a', 'b.#.c'] })],
  insertField: [step('insertField', { fields: { a: 'x', 'b.z': 'json:{"q":[1]}', 'c.t': '${now}' } })],
}
const cases = Object.entries(steps).flatMap(([type, all]) => all.map((one, i) => [`${type} ${i}`, one] as const))

test('every transform is covered by this file', () => {
  expect(Object.keys(steps).toSorted()).toEqual(Object.keys(transforms).toSorted())
})

const leaf = fc.oneof(
  fc.constantFrom<Json>(null, true, 0, 1, 5, '', 'x', '2026-01-01T00:00:00Z', 'c', 'd', 'u', 1.5),
  fc.constantFrom('[1]', '{"__proto__":{"a":1}}').map((text) => JSON.parse(text) as Json),
)
const payloads = fc.letrec<{ value: Json }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    leaf,
    fc.array(tie('value'), { maxLength: 3 }),
    fc
      .dictionary(
        fc.constantFrom('a', 'b', 'c', 'aB', 'a_b', '__proto__', 'constructor', 'op', 'payload', 'after', 'before', 'source', '0'),
        tie('value'),
        { maxKeys: 5 },
      )
      .map((value) => value as Json),
  ),
})).value

function freeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !ArrayBuffer.isView(value))
    for (const inner of Object.values(Object.freeze(value))) freeze(inner)
  return value
}

/** What a step answers, or the text of its error. */
function answer(run: () => readonly Message[]): unknown {
  try {
    return run().map((record) => ({ text: textOf(record), metadata: record.metadata, route: record.route }))
  } catch (error) {
    if (error instanceof TransformError) return error.message
    throw error
  }
}

const metadata = freeze({ topic: 't', headers: { h: 'v' } })

test.each(cases)('%s changes no shared value and returns the same for owned messages', (_name, one) => {
  const { run } = chainOf(one).steps[0]!
  fc.assert(
    fc.property(payloads, (json) => {
      const raw = Buffer.from(JSON.stringify(json))
      const around = { raw, metadata, position: 0, partition: 0 }
      const shared = newMessage({ ...around, json: freeze(JSON.parse(raw.toString()) as Json) })
      const before = JSON.stringify([shared.json, shared.state, shared.route])
      const outputs = answer(() => run(freeze(shared), { nowMs, keyCollisions: 0 }))
      expect(JSON.stringify([shared.json, shared.state, shared.route])).toBe(before)
      const owned = answer(() => run(workingCopy(newMessage(around)), { nowMs, keyCollisions: 0 }))
      expect(normal(owned)).toEqual(normal(outputs))
    }),
    { numRuns: 200 },
  )
})

test('two steps in a row return the same for owned and shared payloads', () => {
  const any = fc.constantFrom(...cases.map(([, one]) => one))
  fc.assert(
    fc.property(any, any, payloads, (first, second, json) => {
      const chain = chainOf(first, second)
      const raw = Buffer.from(JSON.stringify(json))
      const around = { raw, metadata, position: 0, partition: 0 }
      const outcomes = [newMessage(around), newMessage({ ...around, json: freeze(JSON.parse(raw.toString()) as Json) })].map((message) =>
        chain.run(message, nowMs),
      )
      const [owned, shared] = outcomes.map((outcome) =>
        outcome.do === 'fail' ? outcome.error.message : outcome.do === 'drop' ? outcome : answer(() => outcome.records),
      )
      expect(normal(owned)).toEqual(normal(shared))
    }),
    { numRuns: 600 },
  )
})

/** By meaning: texts as values. */
const normal = (outputs: unknown): unknown =>
  Array.isArray(outputs) ? outputs.map((each: { text: string }) => ({ ...each, text: JSON.parse(each.text) as unknown })) : outputs

describe('digits of other fields', () => {
  const digits = '"n":9007199254740993,"d":0.12345678901234567890'
  const elsewhere: Record<string, [ReturnType<typeof step>, string]> = {
    timestamp: [step('timestamp'), `{${digits}}`],
    flatten: [step('flatten', { field: 'l' }), `{"l":[1],${digits}}`],
    filter: [step('filter', { condition: 'n > 9007199254740992' }), `{${digits}}`],
    mask: [step('mask', { fields: ['x'] }), `{"x":1,${digits}}`],
    router: [step('router', { routes: [route('n', 'x')] }), `{${digits}}`],
    select: [step('select', { fields: ['n', 'd'] }), `{"x":1,${digits}}`],
    remove: [step('remove', { fields: ['x'] }), `{"x":1,${digits}}`],
    snakeCase: [step('snakeCase'), `{"aB":1,${digits}}`],
    camelCase: [step('camelCase', { style: 'lower' }), `{"a_b":1,${digits}}`],
    debeziumUnwrap: [step('debeziumUnwrap'), `{"payload":{"op":"c","after":{${digits}}}}`],
    replaceField: [step('replaceField', { renames: ['x:y'] }), `{"x":1,${digits}}`],
    headersToPayload: [step('headersToPayload', { mappings: ['h:x'] }), `{${digits}}`],
    structFlatten: [step('structFlatten'), `{"o":{"x":1},${digits}}`],
    extractField: [step('extractField', { field: 'o' }), `{"o":{${digits}}}`],
    hoistField: [step('hoistField', { field: 'o' }), `{${digits}}`],
    cast: [step('cast', { spec: { x: 'int64' } }), `{"x":"1",${digits}}`],
    timezone: [step('timezone', { timezone: 'UTC', fields: ['x'] }), `{"x":1,${digits}}`],
    insertField: [step('insertField', { fields: { x: 'y' } }), `{${digits}}`],
  }
  test.each(Object.keys(transforms))('%s keeps them', (type) => {
    const [one, payload] = elsewhere[type]!
    expect(runText(one, payload, { metadata: { headers: { h: 'v' } } })).toContain(digits)
  })
})

test('a transform throws only TransformError for any input', () => {
  const chains = cases.map(([, one]) => chainOf(one))
  const bytes = fc.oneof(
    fc.uint8Array({ maxLength: 40 }),
    fc.constantFrom('{', '[[', '"\\ud800"', '1e400', '{"a":1e400}', '-', 'nul', '{"a":"\\u0000"}').map((text) => Buffer.from(text)),
  )
  fc.assert(
    fc.property(bytes, (raw) => {
      for (const chain of chains)
        expect(['write', 'drop', 'fail']).toContain(chain.run(newMessage({ raw, metadata, position: 0, partition: 0 }), nowMs).do)
    }),
    { numRuns: 200 },
  )
  expect(({} as Record<string, unknown>)['a']).toBeUndefined()
})

test('huge texts, wide objects and long arrays pass through every step', () => {
  const huge = [
    JSON.stringify({ a: 'x'.repeat(1 << 18), b: [], c: {} }),
    JSON.stringify({ a: 1, c: Object.fromEntries(Array.from({ length: 4000 }, (_, i) => [`k${i}`, i])) }),
    JSON.stringify({ b: Array.from({ length: 4000 }, (_, i) => ({ a: i, c: 0 })) }),
    `{"a":${'['.repeat(900)}1${']'.repeat(900)}}`,
  ]
  for (const [, one] of cases) {
    const chain = chainOf(one)
    for (const payload of huge) {
      const outcome = chain.run(newMessage({ raw: Buffer.from(payload), metadata, position: 0, partition: 0 }), nowMs)
      if (outcome.do === 'write') expect(textOf(outcome.records[0]!)!.length).toBeGreaterThan(0)
    }
  }
})
