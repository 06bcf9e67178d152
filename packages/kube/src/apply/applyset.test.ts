import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { identityKey } from '../client/object.ts'
import {
  type ApplySet,
  addPlannedMembers,
  applySetId,
  decodeApplySet,
  emptyApplySet,
  encodeApplySet,
  ForeignApplySet,
  ID_LABEL,
  keepMembers,
} from './applyset.ts'

const form = { tooling: 'brokkr/v1.2.3', type: 'brokkr.io/stack', labels: { 'brokkr.io/owner-id': 'agent' } }
const parent = { name: 'brokkr-stack-1', namespace: 'brokkr' }
const member = (kind: string, namespace: string, name: string, uid?: string) => ({
  group: kind === 'Deployment' ? 'apps' : '',
  kind,
  namespace,
  name,
  ...(uid ? { uid } : {}),
})

test('applySetId is base64url of the hash of name, namespace, kind and group', () => {
  // printf brokkr-stack-1.brokkr.Secret. | openssl dgst -sha256 -binary | basenc --base64url | tr -d =
  expect(applySetId(parent)).toBe('applyset-y34Ty39VsN9bpU8aHauTIRdhReCyvI14y0VpLEJnsXE-v1')
  expect(applySetId(parent).length).toBeLessThanOrEqual(63)
  expect(applySetId({ name: 'a', namespace: 'b' })).not.toBe(applySetId({ name: 'a.b', namespace: '' }))
})

test('the parent lists sorted kinds and namespaces without its own namespace', () => {
  const set = addPlannedMembers(emptyApplySet(parent), [
    member('Deployment', 'web', 'a'),
    member('ConfigMap', 'brokkr', 'b'),
    member('ConfigMap', 'api', 'c'),
    member('Namespace', '', 'web'),
  ])
  const secret = encodeApplySet(set, form)
  expect(secret.metadata).toEqual({
    ...parent,
    labels: { 'brokkr.io/owner-id': 'agent', [ID_LABEL]: applySetId(parent) },
    annotations: {
      'applyset.kubernetes.io/tooling': 'brokkr/v1.2.3',
      'applyset.kubernetes.io/contains-group-kinds': 'ConfigMap,Deployment.apps,Namespace',
      'applyset.kubernetes.io/additional-namespaces': 'api,web',
    },
  })
})

const identities = fc.array(
  fc.record({
    group: fc.constantFrom('', 'apps', 'a.example.com'),
    kind: fc.constantFrom('A', 'B'),
    namespace: fc.constantFrom('', 'x', 'y'),
    name: fc.constantFrom('a', 'b', 'c'),
  }),
)

test('an ApplySet is the same after encoding and decoding, also by a newer tool version', () => {
  fc.assert(
    fc.property(identities, fc.uint8Array(), (planned, bytes) => {
      const set: ApplySet = { ...addPlannedMembers(emptyApplySet(parent), planned), data: { 'state.json': Buffer.from(bytes) } }
      expect(decodeApplySet(encodeApplySet(set, form), { tooling: 'brokkr/v2.0.0' })).toEqual(set)
    }),
  )
})

test('addPlannedMembers keeps all members and keepMembers keeps exactly the existing ones', () => {
  fc.assert(
    fc.property(identities, identities, (first, second) => {
      const before = addPlannedMembers(emptyApplySet(parent), first)
      const wide = addPlannedMembers(before, second)
      const keys = new Set(wide.members.map(identityKey))
      expect([...first, ...second].every((identity) => keys.has(identityKey(identity)))).toBe(true)
      expect(wide.kinds.length).toBeGreaterThanOrEqual(before.kinds.length)
      expect(keepMembers(wide, before.members)).toEqual(before)
    }),
  )
})

test('addPlannedMembers keeps existing uids', () => {
  const set = keepMembers(emptyApplySet(parent), [member('ConfigMap', 'a', 'x', 'uid-1')])
  expect(addPlannedMembers(set, [member('ConfigMap', 'a', 'x')]).members).toEqual([member('ConfigMap', 'a', 'x', 'uid-1')])
})

const good = encodeApplySet(emptyApplySet(parent), form)
test.each([
  ['another tool', { ...good, metadata: { ...good.metadata, annotations: { 'applyset.kubernetes.io/tooling': 'kubectl/v1.36' } } }],
  ['no tool', { ...good, metadata: { ...good.metadata, annotations: {} } }],
  ['an id of another name', { ...good, metadata: { ...good.metadata, name: 'copy' } }],
  ['no id', { ...good, metadata: { ...good.metadata, labels: {} } }],
  ['bytes that are no gzip', { ...good, data: { 'inventory.json.gz': Buffer.from('x').toString('base64') } }],
  ['an inventory that is no list', { ...good, data: { 'inventory.json.gz': gzipSync('{}').toString('base64') } }],
])('a parent with %s is refused', (_why, secret) => {
  expect(() => decodeApplySet(secret, form)).toThrow(ForeignApplySet)
})
