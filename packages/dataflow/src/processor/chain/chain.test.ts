import { Buffer } from 'node:buffer'
import { describe, expect, test } from 'vitest'
import { newMessage, payloadBytes } from '../../message/message.ts'
import { chainOf, messageOf, nowMs, recordsOf, route, run, runChain, runText, step, textOf } from '../test-parts/chains.ts'

test('every output of a step runs through the next one', () => {
  const steps = [step('flatten', { field: 'entries' }), step('filter', { condition: 'userId != 2' }), step('snakeCase')]
  expect(run(steps, '{"id":1,"entries":[{"userId":1},{"userId":2},{"userId":3}]}')).toEqual([
    { id: 1, user_id: 1 },
    { id: 1, user_id: 3 },
  ])
})

test('[D44] payloads that are not JSON pass unchanged', () => {
  const steps = [
    step('flatten', { field: 'a' }),
    step('select', { fields: ['a'] }),
    step('router', { routes: [route('a', 'x')] }),
    step('snakeCase'),
    step('cast', { spec: { a: 'int64' } }),
    step('timezone', { timezone: 'UTC', fields: ['a'] }),
    step('insertField', { fields: { a: 'b' } }),
    step('extractField', { field: 'a' }),
    step('hoistField', { field: 'a' }),
  ]
  for (const raw of [Uint8Array.of(0x80, 0xff), Buffer.from('not-json')])
    for (const one of [...steps.map((each) => [each]), steps]) expect(payloadBytes(recordsOf(runChain(chainOf(...one), raw))[0]!)).toBe(raw)
})

describe('bytes', () => {
  test('a message that no step reads is not parsed', () => {
    const [record] = recordsOf(runChain(chainOf(step('filter', { condition: 'metadata.topic' })), '{"a":1}', { metadata: { topic: 't' } }))
    expect(record!.state).toBe('bytes')
  })

  test('a false condition on metadata does not parse the payload', () => {
    const [record] = recordsOf(runChain(chainOf(step('mask', { fields: ['a'] }, { when: 'metadata.nope' })), 'not-json'))
    expect(record!.state).toBe('bytes')
  })

  test('a chain without steps passes the bytes unchanged', () => {
    const raw = Buffer.from('{"a": 1.0}')
    expect(payloadBytes(recordsOf(runChain(chainOf(), raw))[0]!)).toBe(raw)
    expect(textOf(recordsOf(runChain(chainOf(), undefined))[0]!)).toBeNull()
  })

  test('key order stays, new keys come last, nothing is escaped for HTML', () => {
    expect(runText(step('timestamp'), '{"z":"<&>","a":1}')).toBe('{"z":"<&>","a":1,"created_at":"2026-01-16T13:55:03Z"}')
  })
})

test('a chain does not change its input message', () => {
  const chain = chainOf(
    step('mask', { fields: ['a'] }),
    step('router', { routes: [route('b', 'x')] }),
    step('cast', { spec: { a: 'int64' } }, { when: 'fails' }),
  )
  const message = messageOf('{"a":"secret","b":1,"fails":true}', { metadata: { topic: 't' } })
  const before = { ...message }
  for (let i = 0; i < 2; i += 1) {
    expect(chain.run(message, nowMs)).toMatchObject({ do: 'fail', step: { index: 2, type: 'cast' } })
    expect(message).toEqual(before)
  }
})

test('a payload that the source decoded is not written into', () => {
  const json = { a: 'x', nested: { b: 1 } }
  const message = newMessage({ json, metadata: {}, position: 1, partition: 0 })
  const chain = chainOf(step('mask', { fields: ['a', 'nested.b'] }), step('timestamp', { fieldName: 'nested.at' }))
  expect(recordsOf(chain.run(message, nowMs))[0]!.json).toEqual({ a: '***', nested: { b: '***', at: '2026-01-16T13:55:03Z' } })
  expect(json).toEqual({ a: 'x', nested: { b: 1 } })
})

test('steps count their messages', () => {
  const chain = chainOf(step('flatten', { field: 'l' }), step('filter', { condition: 'l > 1' }), step('cast', { spec: { l: 'bool' } }))
  runChain(chain, '{"l":[1,2,3]}')
  runChain(chain, '{"l":[0]}')
  expect(chain.counts).toEqual([
    { type: 'flatten', messagesIn: 2, messagesOut: 4, errors: 0, keyCollisions: 0 },
    { type: 'filter', messagesIn: 4, messagesOut: 2, errors: 0, keyCollisions: 0 },
    { type: 'cast', messagesIn: 2, messagesOut: 0, errors: 1, keyCollisions: 0 },
  ])
  expect(chain.steps[2]!.applies(messageOf('{}'))).toBe(true)
})

test('a blank condition is always true', () => {
  expect(run(step('snakeCase', {}, { when: '  ' }), '{"aB":1}')).toEqual([{ a_b: 1 }])
})
