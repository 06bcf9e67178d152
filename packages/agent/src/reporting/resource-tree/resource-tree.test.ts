import { expect, test } from 'vitest'
import { buildTree, nodesMax, type OwnedObject, toDelta, toReportedNodes } from './resource-tree.ts'

const member = (kind: string, name: string) => ({
  group: kind === 'Deployment' ? 'apps' : '',
  kind,
  namespace: 'x',
  name,
  uid: `u-${name}`,
})
const child = (kind: string, name: string, ownerUid: string): OwnedObject => ({
  uid: `u-${name}`,
  group: kind === 'Pod' ? '' : 'apps',
  kind,
  namespace: 'x',
  name,
  ownerUid,
})
const children = [child('ReplicaSet', 'web-1', 'u-web'), child('Pod', 'web-1-a', 'u-web-1'), child('Pod', 'web-1-b', 'u-web-1')]
const childrenOf = (uid: string) => children.filter(({ ownerUid }) => ownerUid === uid)
const members = [member('Deployment', 'web'), member('ConfigMap', 'c')]
const short = (nodes: ReturnType<typeof buildTree>) =>
  nodes.map(({ name, owner_uid, health, message }) => [name, owner_uid, health, message])

test('each node has its owner, and a healthy node has no message', () => {
  expect(short(buildTree(members, childrenOf, new Map()))).toEqual([
    ['web', undefined, 'healthy', undefined],
    ['c', undefined, 'healthy', undefined],
    ['web-1', 'u-web', 'healthy', undefined],
    ['web-1-a', 'u-web-1', 'healthy', undefined],
    ['web-1-b', 'u-web-1', 'healthy', undefined],
  ])
})

test('a member without its own health has that of its owned objects, at first unknown', () => {
  const unwell = new Map([['u-web-1-b', { health: 'degraded' as const, message: 'CrashLoopBackOff' }]])
  expect(short(buildTree(members, childrenOf, unwell))).toEqual([
    ['web', undefined, 'healthy', undefined],
    ['c', undefined, 'healthy', undefined],
    ['web-1', 'u-web', 'degraded', 'CrashLoopBackOff'],
    ['web-1-a', 'u-web-1', 'healthy', undefined],
    ['web-1-b', 'u-web-1', 'degraded', 'CrashLoopBackOff'],
  ])
  expect(buildTree(members, childrenOf, null).map(({ health }) => health)).toEqual(['unknown', 'unknown', 'unknown', 'unknown', 'unknown'])
})

test('planned members are no nodes, owner cycles end, and the tree is bounded', () => {
  expect(buildTree([{ group: '', kind: 'Pod', namespace: 'x', name: 'planned' }], childrenOf, new Map())).toEqual([])
  const ring = (uid: string) => [child('Pod', `${uid}-x`, uid)]
  expect(buildTree([member('Pod', 'a')], ring, new Map())).toHaveLength(5)
  const many = Array.from({ length: nodesMax + 7 }, (_, n) => member('ConfigMap', `m${n}`))
  expect(buildTree(many, () => [], new Map())).toHaveLength(nodesMax)
})

test('the second report contains only changes', () => {
  const before = buildTree(members, childrenOf, new Map())
  expect(toDelta(before, undefined)).toEqual({ full: true, nodes: before, removed_uids: [] })
  expect(toDelta(before, toReportedNodes(before))).toBeNull()
  const unwell = new Map([['u-c', { health: 'degraded' as const, message: 'Missing' }]])
  const after = buildTree(members, (uid) => childrenOf(uid).filter(({ name }) => name !== 'web-1-a'), unwell)
  expect(toDelta(after, toReportedNodes(before))).toMatchObject({
    full: false,
    nodes: [{ name: 'c', health: 'degraded' }],
    removed_uids: ['u-web-1-a'],
  })
})
