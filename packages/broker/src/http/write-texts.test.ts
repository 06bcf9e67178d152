import fc from 'fast-check'
import { expect, test } from 'vitest'
import { maskAnswer } from './mask-answer.ts'
import { textAsJson, writeWithTexts } from './write-texts.ts'

const item = (text: string, name = 'a') => ({
  name,
  yaml_content: text,
  id: 7,
  [textAsJson]: { text, json: Buffer.from(JSON.stringify(text)) },
})
const written = (value: unknown) => writeWithTexts(JSON.stringify, value)

test('what has not every text at hand is written as always', () => {
  const { [textAsJson]: _, ...plain } = item('a: 1')
  for (const value of [[], [plain], [item('a: 1'), plain], [item('a: 1'), null], item('a: 1'), null, 'text'])
    expect(written(value)).toBe(JSON.stringify(value))
  const dropping = (value: unknown) => JSON.stringify(value, ['name'])
  expect(writeWithTexts(dropping, [item('a: 1')])).toBe('[{"name":"a"}]')
})

test('a list with every text at hand is the same, as bytes, whatever the texts and the rest of it hold', () => {
  const text = fc.string({ unit: 'binary' })
  fc.assert(
    fc.property(fc.array(fc.tuple(text, text)), (pairs) => {
      const value = [...pairs.map(([content, name]) => item(content, name)), item('"yaml_content":""', '"yaml_content":""')]
      const bytes = written(value)
      expect(bytes).toBeInstanceOf(Buffer)
      expect(bytes.toString()).toBe(JSON.stringify(value))
    }),
  )
})

test('an answer whose texts were changed is written from the changed ones, however it was copied', async () => {
  const said = { headers: {}, status: null, denied: null, answer: null }
  const masked = await maskAnswer(() => Promise.resolve('***'), said, [item('password: hunter2')])
  const copied = [{ ...item('password: hunter2'), yaml_content: '***' }]
  for (const value of [masked, copied]) expect(written(value).toString()).toBe('[{"name":"a","yaml_content":"***","id":7}]')
})
