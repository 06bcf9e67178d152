import { re2 } from '@brokkr/contract/dataflow/language/re2.ts'
import { normalize } from '@brokkr/contract/dataflow/spec/normalize.ts'
import type { KubeObject } from '@brokkr/kube'
import { expect, test } from 'vitest'
import { annotation } from '../names.ts'
import { resolveWith } from './resolve.ts'

const place = { namespace: 'shop', name: 'orders' }
const secretOf = (data: Record<string, string>, annotations: Record<string, string> = {}): KubeObject => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: 'kafka', annotations },
  data: Object.fromEntries(Object.entries(data).map(([key, value]) => [key, Buffer.from(value).toString('base64')])),
})

function resolve(config: object, secrets: Record<string, KubeObject | undefined>) {
  const source = { type: 'kafka', config: { brokers: ['a:1'], topic: 't', ...config } }
  const sink = { type: 'kafka', config: { brokers: ['a:1'], topic: 'u' } }
  const { flow, problems } = normalize({ source, sink }, { patterns: re2, ...place })
  if (flow === undefined) throw new Error(problems.map(({ path, reason }) => `${path}: ${reason}`).join('; '))
  return resolveWith(flow, place, new Map(Object.entries(secrets))).source.config
}
const sasl = (fields: object) => ({ securityProtocol: 'SASL_PLAINTEXT', sasl: { mechanism: 'plain', ...fields } })
const ref = (key: string, more: object = {}) => ({ name: 'kafka', key, ...more })
const present = { 'shop/kafka': secretOf({ user: 'reader', password: 'hidden-value\n', list: 'b:1, c:2', empty: ' ' }) }

test.each([
  ['direct', sasl({ username: 'a', password: 'b' }), { username: 'a', password: 'b' }],
  [
    'by references',
    sasl({ usernameSecretRef: ref('user'), passwordSecretRef: ref('password') }),
    { username: 'reader', password: 'hidden-value' },
  ],
  ['mixed', sasl({ username: 'a', passwordSecretRef: ref('password') }), { username: 'a', password: 'hidden-value' }],
])('[D110] SASL %s is resolved', (_title, config, wanted) => {
  expect(resolve(config, present)).toMatchObject({ sasl: wanted })
})

test('[D110] a list comes from one text', () => {
  expect(resolve({ brokers: undefined, brokersSecretRef: ref('list') }, present)).toMatchObject({ brokers: ['b:1', 'c:2'] })
})

test.each([
  ['a missing Secret', sasl({ username: 'a', passwordSecretRef: ref('password') }), {}, 'secret shop/kafka does not exist'],
  ['a missing key', sasl({ username: 'a', passwordSecretRef: ref('other') }), present, 'secret shop/kafka has no key other'],
  ['an empty key', sasl({ username: 'a', passwordSecretRef: ref('empty') }), present, 'key empty of secret shop/kafka is empty'],
  ['a missing user', sasl({ passwordSecretRef: ref('password') }), present, 'sasl needs username and password'],
  ['text that is no PEM', { securityProtocol: 'SSL', tls: { caSecretRef: ref('password') } }, present, 'it must contain -----BEGIN'],
])('[D110] %s is named, and no value is', (_title, config, secrets, message) => {
  expect(() => resolve(config, secrets)).toThrow(message)
  expect(() => resolve(config, secrets)).not.toThrow('hidden-value')
})

test.each([
  ['without a grant', {}, false],
  ['with a grant for another namespace', { [annotation.shareWith]: 'other' }, false],
  ['with a grant', { [annotation.shareWith]: 'other, shop' }, true],
  ['with a grant for all', { [annotation.shareWith]: '*' }, true],
])('[D111] a Secret of another namespace %s', (_title, annotations, isResolved) => {
  const config = sasl({ username: 'a', passwordSecretRef: ref('password', { namespace: 'vault' }) })
  const run = () => resolve(config, { 'vault/kafka': secretOf({ password: 'x1' }, annotations) })
  if (isResolved) expect(run()).toMatchObject({ sasl: { password: 'x1' } })
  else expect(run).toThrow('spec.source.config.sasl.passwordSecretRef: secret vault/kafka is not shared with namespace shop')
})
