import fc from 'fast-check'
import { expect, test } from 'vitest'
import { maskManifests, textAsJson, writeWithManifests } from './manifests.ts'

const item = (text: string, name = 'a') => ({
  name,
  yaml_content: text,
  id: 7,
  [textAsJson]: { text, json: Buffer.from(JSON.stringify(text)) },
})
const written = (value: unknown) => writeWithManifests(JSON.stringify, value)

test('a response without all manifests in memory is written by JSON.stringify', () => {
  const { [textAsJson]: _, ...plain } = item('a: 1')
  for (const value of [[], [plain], [item('a: 1'), plain], [item('a: 1'), null], plain, null, 'text'])
    expect(written(value)).toBe(JSON.stringify(value))
  const dropping = (value: unknown) => JSON.stringify(value, ['name'])
  expect(writeWithManifests(dropping, [item('a: 1')])).toBe('[{"name":"a"}]')
})

test('a response with cached manifests has the same bytes as JSON.stringify', () => {
  const text = fc.string({ unit: 'binary' })
  fc.assert(
    fc.property(fc.array(fc.tuple(text, text)), (pairs) => {
      const value = [...pairs.map(([content, name]) => item(content, name)), item('"yaml_content":""', '"yaml_content":""')]
      const bytes = written(value)
      expect(bytes).toBeInstanceOf(Buffer)
      expect(bytes.toString()).toBe(JSON.stringify(value))
      for (const one of value) expect(written(one).toString()).toBe(JSON.stringify(one))
    }),
  )
}, 200_000)

test('a copied response is written with its changed manifests', async () => {
  const said = { headers: {}, status: null, denied: null, answer: null }
  const masked = await maskManifests(() => Promise.resolve('***'), said, [item('password: hunter2')])
  const copied = [{ ...item('password: hunter2'), yaml_content: '***' }]
  for (const value of [masked, copied]) expect(written(value).toString()).toBe('[{"name":"a","yaml_content":"***","id":7}]')
})
