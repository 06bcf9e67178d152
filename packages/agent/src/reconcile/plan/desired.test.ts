import { createSecretKey } from 'node:crypto'
import { expect, test } from 'vitest'
import { allGrants } from '../../policy/policy.ts'
import { type DesiredRules, parseObjects, toDesiredObjects } from './desired.ts'

const rules: DesiredRules = {
  metadata: {
    stackId: 'stack',
    agentId: 'agent',
    applySetId: 'applyset-x-v1',
    objectId: 'object',
    checksum: 'sum',
    hashKey: createSecretKey(Buffer.alloc(32, 1)),
  },
  policy: { allowedNamespaces: [], watchNamespace: null, protectedNamespaces: ['brokkr'], deniedKinds: [] },
  grants: allGrants,
  generator: 'g',
  scope: ({ kind }) =>
    (
      ({
        ConfigMap: 'namespaced',
        Secret: 'namespaced',
        Namespace: 'cluster',
        ClusterRole: 'cluster',
        CustomResourceDefinition: 'cluster',
      }) as const
    )[kind as 'Secret'] ?? { code: 'missing_kind', message: `${kind} is not served`, retryable: false },
  defaultNamespace: 'default',
}

function desired(text: string, change: Partial<DesiredRules> = {}) {
  const read = parseObjects(text)
  return read.ok ? toDesiredObjects(read.objects, { ...rules, ...change }) : read
}
const objects = (text: string, change: Partial<DesiredRules> = {}) => {
  const found = desired(text, change)
  if (!found.ok) throw new Error(found.problem.message)
  return found.objects
}

test('empty documents are skipped, lists expanded, and missing namespaces added', () => {
  const text = `
# nothing
---
apiVersion: v1
kind: ConfigMap
metadata: {name: a}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: b, namespace: web}}
- {apiVersion: v1, kind: Namespace, metadata: {name: web, namespace: ignored}}
---
`
  expect(objects(text).map(({ key }) => key)).toEqual(['ConfigMap|default|a', 'ConfigMap|web|b', 'Namespace||web'])
})

test('a CRD in the manifest defines the scope of its kind', () => {
  const crd = (scope: string) =>
    `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: widgets.example.com}, spec: {group: example.com, scope: ${scope}, names: {kind: Widget}}}`
  const widget = '{apiVersion: example.com/v1, kind: Widget, metadata: {name: w}}'
  expect(objects(`${crd('Namespaced')}\n---\n${widget}`)[1]?.key).toBe('Widget.example.com|default|w')
  expect(objects(`${crd('Cluster')}\n---\n${widget}`)[1]?.key).toBe('Widget.example.com||w')
  const missing = desired(widget)
  expect(missing.ok ? null : missing.problem).toMatchObject({
    code: 'missing_kind',
    waitsFor: { kinds: [{ group: 'example.com', kind: 'Widget' }] },
  })
})

test('every object has the ownership metadata; pod templates do not', () => {
  const [object] = objects(
    '{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {app: x}, annotations: {note: why}}, template: {metadata: {labels: {app: x}}}}',
  )
  expect(object?.object).toEqual({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: {
      name: 'a',
      namespace: 'default',
      labels: {
        app: 'x',
        'brokkr.io/stack': 'stack',
        'brokkr.io/owner-id': 'agent',
        'brokkr.io/deployment-object-id': 'object',
        'applyset.kubernetes.io/part-of': 'applyset-x-v1',
      },
      annotations: {
        note: 'why',
        'k8s.brokkr.io/stack': 'stack',
        'brokkr.io/owner-id': 'agent',
        'brokkr.io/deployment-object-id': 'object',
        'k8s.brokkr.io/deployment-checksum': 'sum',
        'k8s.brokkr.io/last-config-applied': 'sum',
        'brokkr.io/applied-hash': object?.hash,
      },
    },
    template: { metadata: { labels: { app: 'x' } } },
  })
})

const map = (body: string, metadata = '') => `{apiVersion: v1, kind: ConfigMap, metadata: {name: a${metadata}}, data: ${body}}`
const hash = (text: string, marks: Partial<DesiredRules['metadata']> = {}) =>
  objects(text, { metadata: { ...rules.metadata, ...marks } })[0]?.hash
test.each([
  ['another order of keys is the same', map('{x: "1", z: "2"}'), map('{z: "2", x: "1"}'), {}, true],
  ['another revision is the same', map('{x: "1"}'), map('{x: "1"}'), { objectId: 'later', checksum: 'other' }, true],
  [
    'a revision mark in the manifest is the same',
    map('{x: "1"}', ', labels: {brokkr.io/deployment-object-id: z}'),
    map('{x: "1"}'),
    {},
    true,
  ],
  [
    'a checksum of another revision in the manifest is the same',
    map('{x: "1"}', ', annotations: {k8s.brokkr.io/deployment-checksum: z, brokkr.io/applied-hash: z}'),
    map('{x: "1"}'),
    {},
    true,
  ],
  ['other content is not', map('{x: "1"}'), map('{x: "2"}'), {}, false],
  ['another label is not', map('{}'), map('{}', ', labels: {b: c}'), {}, false],
  ['another stack is not', map('{}'), map('{}'), { stackId: 'other' }, false],
  ['another key is not', map('{}'), map('{}'), { hashKey: createSecretKey(Buffer.alloc(32, 2)) }, false],
])('hash: %s', (_what, one, two, marks, same) => {
  expect(hash(one) === hash(two, marks)).toBe(same)
})

test('hash: equal in every release, so that an update writes nothing', () => {
  const text = `{apiVersion: v1, kind: ConfigMap, metadata: {name: a, labels: {z: "1", b: "2"}}, data: {b: 'ü"', a: "x\\ny"}, list: [1, null, {z: 1.5, y: true}]}`
  expect(hash(text)).toBe('b89c5724ee8eb15109585bf72e16cbf18362564051cb9952f1d746e030d98aaa')
})

test('reserved keys of the manifest are replaced and reported', () => {
  const [object] = objects(map('{}', ', labels: {brokkr.io/owner-id: me}, annotations: {brokkr.io/applied-hash: x}'))
  expect(object?.object.metadata.labels?.['brokkr.io/owner-id']).toBe('agent')
  expect(object?.overwritten).toEqual(['label brokkr.io/owner-id', 'annotation brokkr.io/applied-hash'])
})

test.each([
  ['text that is no YAML', '{a: [', 'invalid', /line 2, column 1/],
  ['a document that is no object', '- a', 'invalid', /not a map/],
  ['no kind', '{apiVersion: v1, metadata: {name: a}}', 'invalid', /document 1 .*kind is missing/],
  ['no metadata', '{apiVersion: v1, kind: X}', 'invalid', /metadata is missing/],
  ['no name', '{apiVersion: v1, kind: X, metadata: {generateName: a-}}', 'invalid', /metadata.name is missing/],
  [
    'labels that are a list',
    '{apiVersion: v1, kind: X, metadata: {name: a, labels: [a]}}',
    'invalid',
    /metadata.labels is not a map of texts/,
  ],
  ['a label that is a number', '{apiVersion: v1, kind: X, metadata: {name: a, labels: {a: 1}}}', 'invalid', /metadata.labels/],
  [
    'the same object twice',
    `${map('{}')}\n---\n${map('{}', ', namespace: default')}`,
    'invalid',
    /ConfigMap default\/a stands in the manifest twice/,
  ],
  ['the agent’s own namespace', map('{}', ', namespace: brokkr'), 'outside_scope', /namespace brokkr is protected/],
  ['the protected Namespace itself', '{apiVersion: v1, kind: Namespace, metadata: {name: brokkr}}', 'outside_scope', /protected/],
])('%s is rejected before any request, with its location', (_what, text, code, message) => {
  const found = desired(text)
  expect(found.ok ? null : found.problem).toMatchObject({ phase: 'failed', code, message: expect.stringMatching(message) })
})

test('the policy rejects denied kinds and namespaces', () => {
  const policy = {
    allowedNamespaces: ['web'],
    watchNamespace: null,
    protectedNamespaces: [],
    deniedKinds: ['Secret', 'ClusterRole.rbac.authorization.k8s.io'],
  }
  const text = `${map('{}', ', namespace: shop')}
---
{apiVersion: v1, kind: Secret, metadata: {name: s, namespace: web}}
---
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: r}}`
  const found = desired(text, { policy })
  const message = found.ok ? '' : found.problem.message
  expect(message).toContain('writes only to web')
  expect(message).toContain('does not write Secret')
  expect(message).toContain('does not write ClusterRole.rbac.authorization.k8s.io')
})
