import { gunzipSync } from 'node:zlib'
import type { DeploymentObjectId } from '@brokkr/contract/wire.ts'
import { expect, test } from 'vitest'
import { holdObject, sha256, textOf } from './held-object.ts'

const hold = (id: string, text: string) => holdObject({ id: id as DeploymentObjectId, sequenceId: 1, isMarker: false }, text)

test('every object gives its own text and content, whichever came last and in whatever order they are asked', () => {
  const [first, second, third] = [hold('1', 'a: 1'), hold('2', 'ä: 2'), hold('3', '')]
  expect([third, second, first].map(textOf)).toEqual(['', 'ä: 2', 'a: 1'])
  expect([first, second, third].map(({ content }) => gunzipSync(content).toString('utf8'))).toEqual(['a: 1', 'ä: 2', ''])
  expect([first, second, third].map(textOf)).toEqual(['a: 1', 'ä: 2', ''])
  expect([first, second, third].map(({ checksum }) => checksum)).toEqual(['a: 1', 'ä: 2', ''].map(sha256))
  expect(third.content).toBe(third.content)
  expect({ ...second }).toMatchObject({ id: '2', content: second.content })
})
