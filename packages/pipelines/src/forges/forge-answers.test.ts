import { expect, test } from 'vitest'
import { ForgeAnswers } from './forge-answers.ts'

const answer = (bytes: number, status = 200) => ({ status, headers: { etag: '"a"' }, body: Buffer.alloc(bytes), isCut: false })
const MIB = 1024 * 1024

test('the answers of a cache have at most 16 MiB together, and the oldest go first', () => {
  const answers = new ForgeAnswers()
  for (let number = 0; number < 1_000; number++) answers.keep(`key ${number}`, answer(200 * 1024))
  expect(answers.bytes).toBeLessThanOrEqual(16 * MIB)
  expect(answers.bytes).toBeGreaterThan(15 * MIB)
  expect([answers.get('key 0'), answers.get('key 999')?.etag]).toEqual([undefined, '"a"'])
})

test('a cache has at most 1,000 answers, and one that was used stays', () => {
  const answers = new ForgeAnswers()
  for (let number = 0; number < 1_000; number++) answers.keep(`key ${number}`, answer(1))
  answers.get('key 0')
  answers.keep('one more', answer(1))
  expect([answers.get('key 0')?.etag, answers.get('key 1')]).toEqual(['"a"', undefined])
})

test.each([
  ['is too large', answer(300 * 1024)],
  ['has no tag', { ...answer(1), headers: {} }],
  ['is an error', answer(1, 500)],
  ['is replaced by a smaller one', answer(1)],
])('an answer that %s leaves no bytes behind', (_title, next) => {
  const answers = new ForgeAnswers()
  answers.keep('key', answer(100_000))
  answers.keep('key', next)
  expect(answers.bytes).toBeLessThan(100)
})
