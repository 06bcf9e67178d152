import { expect, test } from 'vitest'
import { commands } from './commands/index.ts'
import { findPlace } from './commands/setup/complete.ts'
import { maskSecrets } from './commands/setup/mask-secrets.ts'
import { compareManifests } from './commands/stacks/object-diff.ts'
import { parseProject } from './commands/stacks/project-file.ts'
import { parseSetting } from './commands/templates/parameters.ts'
import { editDistance, suggest } from './suggest.ts'
import { fitWidths } from './table.ts'

test.each([
  ['stakcs', ['stacks', 'agents'], 'stacks'],
  ['shop', ['shop-prod', 'ship'], 'ship'],
  ['checkout', ['billing', 'ledger'], null],
  ['x'.repeat(10_000), ['x'], null],
])('%.10s: did you mean %s', (text, known, expected) => {
  expect(suggest(text, known)).toBe(expected)
})

test.each([
  ['', '', 0],
  ['abc', 'abc', 0],
  ['abc', 'acb', 1],
  ['abc', 'ab', 1],
  ['kitten', 'sitting', 3],
])('%s and %s differ by %d', (a, b, distance) => {
  expect(editDistance(a, b)).toBe(distance)
})

test.each([
  [[10, 20, 30], 100, [10, 20, 30]],
  [[10, 20, 90], 84, [10, 20, 50]],
  [[40, 40, 10], 64, [25, 25, 10]],
  [[6, 6, 6], 10, [6, 6, 6]],
])('columns %j fit %d', (widths, width, expected) => {
  expect(fitWidths(widths, width)).toEqual(expected)
})

test('manifests are compared by object and field, and values of Secrets are masked', () => {
  const object = (kind: string, name: string, rest: string) => `apiVersion: v1\nkind: ${kind}\nmetadata: {name: ${name}}\n${rest}\n---\n`
  const before =
    object('ConfigMap', 'a', 'data: {x: "1", y: "2"}') + object('Secret', 's', 'data: {p: b2xk}') + object('Service', 'gone', 'spec: {}')
  const after =
    object('Secret', 's', 'data: {p: bmV3}') + object('ConfigMap', 'a', 'data: {x: "3", y: "2"}') + object('Service', 'new', 'spec: {}')
  expect(compareManifests(before, after)).toEqual([
    { kind: 'ConfigMap', namespace: null, name: 'a', change: 'changed', fields: [{ path: '.data.x', before: '"1"', after: '"3"' }] },
    { kind: 'Secret', namespace: null, name: 's', change: 'changed', fields: [{ path: '.data.p', before: '***', after: '***' }] },
    { kind: 'Service', namespace: null, name: 'gone', change: 'removed', fields: [] },
    { kind: 'Service', namespace: null, name: 'new', change: 'added', fields: [] },
  ])
  expect(compareManifests(before, before)).toEqual([])
})

test('secrets are masked by field name and by their form', () => {
  const pak = `brokkr_BRabcdef_${'a'.repeat(30)}`
  const { value, masked } = maskSecrets({
    config: { 'broker.encryption_key': { value: 'plain' }, password: 'hunter2', short_token: 'BRabcdef' },
    url: 'postgres://user:pass@db/brokkr',
    list: [`the key ${pak} was used`, 'authorization: Bearer abcdefghijkl'],
    has_auth_header: true,
  })
  expect(value).toEqual({
    config: { 'broker.encryption_key': { value: '***' }, password: '***', short_token: 'BRabcdef' },
    url: 'postgres://***@db/brokkr',
    list: ['the key ***pak*** was used', 'authorization: Bearer ***'],
    has_auth_header: true,
  })
  expect(masked).toEqual(['config.broker.encryption_key.value', 'config.password', 'url', 'list[0]', 'list[1]'])
})

test.each([
  ['', {}],
  ['stack: shop\nlabels: [env:prod]\ndrift: report\n', { stack: 'shop', labels: ['env:prod'], drift: 'report' }],
])('the project file %j is read', (text, expected) => {
  expect(parseProject(text)).toEqual(expected)
})

test.each([
  'broker: https://x',
  'pak: x',
  'pak_file: x',
  'token: x',
  'kubeconfig: x',
  'unknown: 1',
  'drift: sometimes',
  'stack: {a: 1}',
  '[1]',
  '\t: x',
  `stack: ${'x'.repeat(70_000)}`,
])('the project file %.30j is refused', (text) => {
  expect(() => parseProject(text)).toThrow(/project file|setting/)
})

test.each([
  ['replicas=3', ['replicas', 3]],
  ['name="3"', ['name', '3']],
  ['name=web', ['name', 'web']],
  ['a=b=c', ['a', 'b=c']],
])('--set %s', (text, expected) => {
  expect(parseSetting(text)).toEqual(expected)
})

test.each([
  [['get', ''], 'noun'],
  [['describe', 'stack', ''], 'stack'],
  [['stacks', 'target', 'shop', '--agent', ''], 'agent'],
  [['--broker', 'http://x', 'agents', 'pause', ''], 'agent'],
  [['stacks', 'label', 'shop', 'a', ''], null],
  [['logs', 'shop@'], 'stack@agent'],
])('after %j follow names of %s', (words, completes) => {
  expect(findPlace(commands, words).completes).toBe(completes)
})
