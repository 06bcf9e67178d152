import { findSink } from '@brokkr/contract/dataflow/spec/types.ts'
import { expect, test } from 'vitest'
import { chainOf, flowOf, recordsOf, route, runChain, step, textOf } from '../processor/test-parts/chains.ts'

type Steps = Parameters<typeof flowOf>

function routed(steps: Steps, payload: string | undefined, metadata = {}) {
  const flow = flowOf(...steps)
  const [record] = recordsOf(runChain(chainOf(...steps), payload, { metadata }))
  const sink = findSink(flow, record!.route)
  return { text: textOf(record!), metadata: record!.metadata, topic: sink.type === 'kafka' && sink.config.topic }
}
const router = (...routes: object[]) => step('router', { routes })

test('[D20] router sends each message unchanged to the sink of its route', () => {
  const steps = [router(route("type == 'user'", 'users'), route("type == 'order'", 'orders'))]
  expect(routed(steps, '{"type": "user"}')).toEqual({
    text: '{"type": "user"}',
    metadata: { routed_condition: "type == 'user'" },
    topic: 'users',
  })
  expect(routed(steps, '{"type": "order"}')).toEqual({
    text: '{"type": "order"}',
    metadata: { routed_condition: "type == 'order'" },
    topic: 'orders',
  })
})

test('[D21] the first matching route and the last router win', () => {
  expect(routed([router(route('a', 'first'), route('a', 'second'))], '{"a":1}').topic).toBe('first')
  expect(routed([router(route('a', 'early')), router(route('b', 'late'))], '{"a":1,"b":1}')).toMatchObject({
    topic: 'late',
    metadata: { routed_condition: 'b' },
  })
})

test('a message without a match goes to the main sink', () => {
  expect(routed([router(route('a', 'other'))], '{}', { topic: 't' })).toEqual({ text: '{}', metadata: { topic: 't' }, topic: 'main' })
  expect(routed([router(route('a', 'early')), router(route('b', 'late'))], '{"a":1}', { topic: 't' })).toMatchObject({
    topic: 'main',
    metadata: { topic: 't' },
  })
  expect(routed([router(route('a', 'early')), { ...router(route('b', 'late')), when: 'c' }], '{"a":1}')).toMatchObject({ topic: 'early' })
})

test('payloads that are not JSON are routed by their metadata', () => {
  expect(routed([router(route("metadata.topic == 't'", 'other'))], 'not-json', { topic: 't' })).toMatchObject({
    text: 'not-json',
    topic: 'other',
  })
  expect(routed([router(route('a', 'other'))], 'not-json')).toMatchObject({ text: 'not-json', topic: 'main' })
  expect(routed([router(route('!a', 'other'))], undefined)).toMatchObject({ text: null, topic: 'other' })
})
