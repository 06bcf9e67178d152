import { gunzipSync } from 'node:zlib'
import type { DeploymentObjectId } from '@brokkr/contract/wire.ts'
import { expect, test } from 'vitest'
import { cacheManifest, readManifest, sha256 } from './cached-manifest.ts'

const hold = (id: string, text: string) => cacheManifest({ id: id as DeploymentObjectId, sequenceId: 1, isDeletionMarker: false }, text)

test('each cached manifest returns its own text in any read order', () => {
  const [first, second, third] = [hold('1', 'a: 1'), hold('2', 'ä: 2'), hold('3', '')]
  expect([third, second, first].map(readManifest)).toEqual(['', 'ä: 2', 'a: 1'])
  expect([first, second, third].map(({ content }) => gunzipSync(content).toString('utf8'))).toEqual(['a: 1', 'ä: 2', ''])
  expect([first, second, third].map(readManifest)).toEqual(['a: 1', 'ä: 2', ''])
  expect([first, second, third].map(({ checksum }) => checksum)).toEqual(['a: 1', 'ä: 2', ''].map(sha256))
  expect(third.content).toBe(third.content)
  expect({ ...second }).toMatchObject({ id: '2', content: second.content })
})
