import { decodeJson, encodeJson, type KubeObject } from '@brokkr/kube'
import { size } from '@brokkr/testing/sizes.ts'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { diffMasked, maskText } from './mask.ts'

const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'
const base64 = (text: string) => Buffer.from(text).toString('base64')
const secret = (fields: object, annotations = {}): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 's', annotations },
  ...fields,
})
const objects = [
  secret({ data: { a: base64('canary-one') }, stringData: { b: 'canary-two', c: 12345678, d: 'abc' } }),
  secret({ stringData: { pem: 'first-line-of-it\nsecond "line" of it' } }),
  secret({}, { [lastApplied]: JSON.stringify(secret({ data: { a: base64('canary-three') } })) }),
  { apiVersion: 'x/v1', kind: 'Template', metadata: { name: 't' }, objects: [secret({ stringData: { b: 'canary-four' } })] },
  { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'c' }, data: { x: 'public' } },
]

test.each([
  ['plain', 'denied: canary-two is weak', 'denied: *** is weak'],
  ['decoded', 'got canary-one', 'got ***'],
  ['encoded', `got ${base64('canary-two')}`, 'got ***'],
  ['a number', 'expected string, got 12345678', 'expected string, got ***'],
  ['quoted', 'Invalid value: "first-line-of-it\\nsecond \\"line\\" of it"', 'Invalid value: "***"'],
  ['one line of many', 'not a key: second "line" of it', 'not a key: ***'],
  ['in the copy that kubectl keeps', `annotation holds ${base64('canary-three')} and canary-three`, 'annotation holds *** and ***'],
  ['in a Secret inside of another object', 'canary-four', '***'],
  ['of other kinds', 'public abc', 'public abc'],
])('[X4] a message contains no value of a Secret: %s', (_what, text, expected) => {
  expect(maskText(text, objects)).toBe(expected)
})

test('[X4] a changed Secret shows its changed keys as fingerprints without values', () => {
  const copy = (password: string) => ({ [lastApplied]: JSON.stringify(secret({ stringData: { password } })) })
  const before = secret({ data: { user: base64('canary-user'), password: base64('canary-old') } }, copy('canary-old'))
  const after = secret({ stringData: { user: 'canary-user', password: 'canary-new', more: 'canary-more' } }, copy('canary-new'))
  const diff = diffMasked(before, after, 50)
  const [password, more, kept] = diff
  expect(diff.map(({ path }) => path)).toEqual(['/data/password', '/data/more', `/metadata/annotations/${lastApplied.replace('/', '~1')}`])
  const mark = /^\*\*\*#[0-9a-f]{12}$/
  for (const { before: was, after: is } of [password, kept].map((each) => each!)) {
    expect([was, is]).toEqual([expect.stringMatching(mark), expect.stringMatching(mark)])
    expect(was).not.toBe(is)
  }
  expect(more).toEqual({ path: '/data/more', after: expect.stringMatching(mark) as unknown })
  expect(JSON.stringify(diff)).not.toMatch(/canary|Y2FuYXJ5/)
  // Under another plan's key the same value has another mark, so that marks of two plans cannot be compared.
  expect(diffMasked(before, after, 50)[0]).not.toEqual(password)
})

test('[X4] other kinds are shown unmasked, and equal Secrets have no diff', () => {
  const map = (x: string) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'c' }, data: { x } })
  expect(diffMasked(map('1'), map('2'), 50)).toEqual([{ path: '/data/x', before: '1', after: '2' }])
  expect(diffMasked(secret({ stringData: { a: 'canary' } }), secret({ data: { a: base64('canary') } }), 50)).toEqual([])
})

test('[X4] no value of a Secret in any form appears in a diff', () => {
  const value = fc.stringMatching(/^[a-z]{8}$/).map((text) => `canary-${text}`)
  const leaf = fc.oneof(value, value.map(base64), fc.array(value, { maxLength: 2 }), fc.dictionary(fc.constantFrom('k', 'l'), value))
  const fields = fc.record({
    data: fc.dictionary(fc.constantFrom('a', 'b', '__proto__'), leaf),
    stringData: fc.dictionary(fc.constantFrom('a', 'c'), leaf),
  })
  const wrapped = (inner: object): KubeObject => ({ apiVersion: 'x/v1', kind: 'List', metadata: { name: 'l' }, items: [inner] })
  fc.assert(
    fc.property(fields, fields, fc.boolean(), (left, right, isInside) => {
      const [before, after] = [left, right].map((each) => (isInside ? wrapped(secret(each)) : secret(each)))
      const kept = [before, after].map((each) => decodeJson(encodeJson(each)))
      expect(JSON.stringify(diffMasked(before as KubeObject, after as KubeObject, 50))).not.toMatch(/canary|Y2FuYXJ5/)
      expect([before, after]).toEqual(kept)
    }),
    { numRuns: size('Q7.cases') },
  )
})
