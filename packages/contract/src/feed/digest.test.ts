import { createHash } from 'node:crypto'
import { expect, test } from 'vitest'
import { digestText } from './digest.ts'

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

test('the test vector of three stacks has the published digest in any order', () => {
  const lines = [
    {
      stackId: 'fa000000-0000-4000-8000-000000000003',
      rev: 12,
      object: { id: '0b000000-0000-4000-8000-00000000000c', checksum: sha256('') },
    },
    { stackId: '0a000000-0000-4000-8000-000000000002', rev: 3, object: null },
    {
      stackId: '0a000000-0000-4000-8000-000000000001',
      rev: 7,
      object: { id: '0b000000-0000-4000-8000-00000000000a', checksum: sha256('a: 1\n') },
    },
  ]
  expect(sha256(digestText(lines))).toBe('9d8839388566d84e345c43a70f4b19eaa93a215cd7fc386ab5e939f10c234ddd')
  expect(sha256(digestText(lines.toReversed()))).toBe('9d8839388566d84e345c43a70f4b19eaa93a215cd7fc386ab5e939f10c234ddd')
})

test('the digest of no stacks is the hash of the empty text', () => {
  expect(digestText([])).toBe('')
})
