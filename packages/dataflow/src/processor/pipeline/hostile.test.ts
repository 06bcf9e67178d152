// Payloads that somebody made to do harm: each ends as a letter or as it came, and the flow goes on.
import { expect, test } from 'vitest'
import { newMessage } from '../../message/message.ts'
import { scriptedFlow } from '../test-parts/scripted-flow.ts'

const deep = (levels: number) => `${'['.repeat(levels)}${']'.repeat(levels)}`
const payloads: Record<string, string | Uint8Array> = {
  'nested beyond all bounds': deep(200_000),
  'an object nested beyond all bounds': `${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`,
  'nested to the bound': deep(900),
  'cut off': '{"password":"hunter2',
  'no UTF-8': Uint8Array.of(0x7b, 0x22, 0xff, 0xfe, 0x22, 0x3a, 0x31, 0x7d),
  'keys of the prototype':
    '{"__proto__":{"password":"x","polluted":true},"constructor":{"prototype":{"polluted":true}},"password":"hunter2"}',
  'a number without end': `{"n":1e99999,"password":"hunter2","m":${'9'.repeat(5000)}}`,
  'ten thousand keys': `{${Array.from({ length: 10_000 }, (_, at) => `"k${at}":${at}`).join(',')}}`,
  'a key twice': '{"password":"first","password":"hunter2"}',
  'a text of a megabyte': JSON.stringify({ note: 'a'.repeat(1 << 20), password: 'hunter2' }),
  'a list that becomes too many records': JSON.stringify({ entries: Array.from({ length: 10_001 }, (_, at) => at) }),
  'escapes and controls': '{"password":"hunter2","note":"\\u0000\\ud800\\u001b[31m"}',
  nothing: '',
}

test('hostile payloads become dead letters and release their memory', async () => {
  const transformations = [
    { type: 'mask', config: { fields: ['password', 'users.#.password'] } },
    { type: 'filter', config: { condition: "!(note matches '(a+)+$' && missing)" }, when: "!(name matches '(a|a)*b')" },
    { type: 'flatten', config: { field: 'entries' } },
    { type: 'snakeCase', config: { deep: true } },
    { type: 'structFlatten' },
    { type: 'timestamp' },
  ]
  const flow = scriptedFlow({
    transformations,
    errors: { type: 'kafka', config: { brokers: ['b:9092'], topic: 'dead' }, maxConsecutive: 0 },
  })
  const all = Object.values(payloads)
  const messages = all.map((payload, at) =>
    newMessage({ raw: typeof payload === 'string' ? Buffer.from(payload) : payload, metadata: {}, position: at, partition: 0 }),
  )
  flow.source.push({ messages })
  flow.source.push({ messages: [newMessage({ raw: Buffer.from('{"fine":1}'), metadata: {}, position: all.length, partition: 0 })] })
  flow.source.end()
  expect((await flow.done).exitCode).toBe(0)
  expect(flow.source.committed).toEqual({ 0: all.length })
  const progress = flow.pipeline.progress({ pod: '', version: '' })
  expect(progress.processedCount).toBe(all.length + 1)
  expect(progress.errorCount).toBeGreaterThanOrEqual(5)
  expect(flow.sink.rows.at(-1)).toContain('"fine":1')
  expect([...flow.sink.rows, ...flow.errors!.rows].join('')).not.toContain('hunter2')
  expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
  expect(flow.pipeline.budget).toMatchObject({ bytes: 0, positions: 0 })
})
