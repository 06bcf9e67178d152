// The agent reads manifests within the same caps as the broker: a broker that is not ours, or an older one, cannot hurt it with a text.
import { expect, test } from 'vitest'
import { parseObjects } from './desired.ts'

const canary = 'S3CR3T'
const mib = 1024 * 1024
const hostile: [string, string, string][] = [
  ['more than 8 MiB', `a: "${canary}${'x'.repeat(8 * mib)}"\n`, String(8 * mib)],
  ['a document of more than 3 MiB', `a: "${canary}${'x'.repeat(3 * mib)}"\n`, String(3 * mib)],
  ['more than 2,000 documents', Array.from({ length: 2001 }, () => `kind: ${canary}\n`).join('---\n'), '2000'],
  ['more than 200,000 values', `a: [${canary}, ${'1, '.repeat(200_001)}]\n`, '200000'],
  ['nesting beyond all measure', `a: ${'['.repeat(500_000)}${canary}`, '64'],
  ['more than 100 uses of an alias', `a: &a ${canary}\nb: [${'*a, '.repeat(101)}]\n`, '100'],
  ['a tag of a programming language', `a: !!js/function "${canary}"\n`, 'tag'],
]

test.each(hostile)('[X24] the agent rejects %s by its limit, without quoting the manifest', (_, text, cap) => {
  const read = parseObjects(text)
  expect(read.ok).toBe(false)
  const told = JSON.stringify(read)
  expect(told).toContain(cap)
  expect(told).not.toContain(canary)
})
