import { parseManifest } from '@brokkr/contract/manifest/manifest.ts'
import { expect, test } from 'vitest'
import { maskManifest } from './mask-manifest.ts'

const canary = 'S3CR3T-value'
test.each([
  ['stringData', `apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: ${canary}}\n`],
  ['data in flow style', `{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {password: ${canary}}}\n`],
  ['JSON', `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"password":"${canary}"}}`],
  ['a block text', `kind: Secret\nmetadata: {name: s}\nstringData:\n  password: |\n    ${canary}\n    more\n`],
  ['an alias', `kind: Secret\nmetadata: {name: s}\nx: &v ${canary}\n`.replace('x:', 'stringData:\n  password:')],
  ['a kind that is spelled with an escape', `kind: "\\x53ecret"\nmetadata: {name: s}\nstringData: {password: ${canary}}\n`],
  ['a kind behind an alias', `x: &k Secret\nkind: *k\nmetadata: {name: s}\nstringData: {password: ${canary}}\n`],
  ['a list', `kind: List\napiVersion: v1\nitems:\n- kind: Secret\n  metadata: {name: s}\n  data: {password: ${canary}}\n`],
  [
    'a SecretList whose items leave their kind out',
    `kind: SecretList\napiVersion: v1\nitems:\n- metadata: {name: s}\n  data: {password: ${canary}}\n`,
  ],
  ['an object inside another', `kind: Template\nmetadata: {name: t}\nobjects:\n- kind: Secret\n  stringData: {password: ${canary}}\n`],
  ['a comment beside it', `# ${canary}\nkind: Secret\nmetadata: {name: s}\nstringData: {password: x}\n`],
  ['data that are no map', `kind: Secret\nmetadata: {name: s}\ndata: [${canary}]\nstringData: {password: {deep: ${canary}}}\n`],
  [
    'the copy that kubectl keeps',
    `kind: Secret\nmetadata:\n  name: s\n  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{"password":"${canary}"}'}\ndata: {password: x}\n`,
  ],
  ['text that cannot be read', `kind: Secret\nstringData: {password: ${canary}`],
])('%s: the value is gone', (_, text) => {
  expect(maskManifest(text)).not.toContain(canary)
})

test('masking keeps names and other documents and returns readable YAML', () => {
  const text =
    'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: "1"}\n---\nkind: Secret\nmetadata: {name: s}\nstringData: {user: x, password: y}\n'
  const [config, secret] = parseManifest(maskManifest(text)).map(({ object }) => object)
  expect(config).toEqual({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'c' }, data: { a: '1' } })
  expect(secret).toEqual({ kind: 'Secret', metadata: { name: 's' }, stringData: { user: '***', password: '***' } })
})

test('a manifest without a Secret is returned byte for byte', () => {
  for (const text of ['', '# a comment\nkind: ConfigMap\n', 'kind: ConfigMap\ndata: {ref: Secret}\n', 'a: "\\n"\n'])
    expect(maskManifest(text)).toBe(text)
})
