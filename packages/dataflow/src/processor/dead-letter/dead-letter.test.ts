import { DeadLetter } from '@brokkr/contract/dataflow/dead-letter.ts'
import { expect, test } from 'vitest'
import { newMessage, payloadText } from '../../message/message.ts'
import { flowOf, step } from '../test-parts/chains.ts'
import { createDeadLetterBuilder, toDeadLetterId, withoutPayload } from './dead-letter.ts'

const failure = { stage: 'transform', type: 'transform', message: 'cast: n: is a string', firstFailedAtMs: 1000, attempts: 2 } as const
const place = { positionText: 'orders[0]=7', recordIndex: 0, sink: 'kafka', route: 'default' }

function letterOf(raw: string | Uint8Array | undefined, payload: 'full' | 'masked' = 'full') {
  const maker = createDeadLetterBuilder({
    flow: 'ns/f',
    specHash: 'abc',
    payload,
    transformations: flowOf(step('mask', { fields: ['password'] })).transformations,
    redact: (text) => text.replaceAll('hunter2', '***'),
  })
  const bytes = typeof raw === 'string' ? Buffer.from(raw) : raw
  const metadata = { topic: 'orders', timestamp: new Date(0), headers: { trace: 't' } }
  const message = newMessage({ raw: bytes, metadata, position: 7, partition: 0 })
  const letter = maker.build(message, { ...failure, message: `${failure.message} hunter2` }, place, 2000)
  return { letter, json: DeadLetter.parse(JSON.parse(payloadText(letter)!)) }
}

test('a dead letter contains error, position and time, and its key is its id', () => {
  const { letter, json } = letterOf('{"n":"x","big":9007199254740993}')
  expect(json.error).toEqual({
    id: toDeadLetterId('ns/f', { partition: 0, position: 7 }, 0, 'transform'),
    message: 'cast: n: is a string ***',
    type: 'transform',
    stage: 'transform',
    timestamp: '1970-01-01T00:00:02.000Z',
    first_failed_at: '1970-01-01T00:00:01.000Z',
    attempts: 2,
    original_sink: 'kafka',
    route: 'default',
    flow: 'ns/f',
    position: 'orders[0]=7',
    spec_hash: 'abc',
    metadata: { topic: 'orders', timestamp: '1970-01-01T00:00:00Z', headers: { trace: 't' } },
  })
  expect(payloadText(letter)).toContain('"original_message":{"n":"x","big":9007199254740993}')
  expect(Buffer.from(letter.key!).toString()).toBe(json.error.id)
  expect(letter.metadata).toMatchObject({ topic: 'orders', is_error_message: true, original_sink: 'kafka', error: json.error.message })
})

test.each([
  ['an array', '[1,2]', { original_data: '[1,2]' }],
  ['a text', '"x"', { original_data: '"x"' }],
  ['no JSON', 'nope', { original_data: 'nope' }],
  ['no UTF-8', Uint8Array.of(0x80, 0xff), { original_data_base64: 'gP8=' }],
  ['nothing', undefined, { original_data: '' }],
])('a payload that is %s is wrapped', (_case, raw, wanted) => {
  expect(letterOf(raw).json.original_message).toEqual(wanted)
})

test.each([
  ['masked like the flow masks', '{"password":"p","a":1}', { password: '***', a: 1 }],
  ['left out when it cannot be masked', '{"password":"p', { omitted: true }],
])('a masked payload is %s', (_case, raw, wanted) => {
  expect(letterOf(raw, 'masked').json.original_message).toEqual(wanted)
})

test('a dead letter without its payload keeps its id', () => {
  const { letter, json } = letterOf('{"a":1}')
  const small = DeadLetter.parse(JSON.parse(payloadText(withoutPayload(letter))!))
  expect(small).toEqual({ error: json.error, original_message: { omitted: true } })
})

test('ids differ by flow, partition, position, record and stage, and by nothing else', () => {
  const at = { partition: 'a', position: { change: 't', order: '1' } } as const
  const ids = [
    toDeadLetterId('ns/f', at, 0, 'sink'),
    toDeadLetterId('ns/g', at, 0, 'sink'),
    toDeadLetterId('ns/f', { ...at, partition: 'b' }, 0, 'sink'),
    toDeadLetterId('ns/f', { ...at, position: 'x' }, 0, 'sink'),
    toDeadLetterId('ns/f', at, 1, 'sink'),
    toDeadLetterId('ns/f', at, 0, 'transform'),
  ]
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids[0]).toBe(toDeadLetterId('ns/f', { partition: 'a', position: { change: 't', order: '1' } }, 0, 'sink'))
  expect(ids[0]).toMatch(/^[0-9a-f]{40}$/)
})
