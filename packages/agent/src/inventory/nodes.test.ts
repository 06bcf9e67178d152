import { expect, test } from 'vitest'
import { type Child, deltaOf, nodesMax, nodesOf, toldOf } from './nodes.ts'

const member = (kind: string, name: string) => ({
  group: kind === 'Deployment' ? 'apps' : '',
  kind,
  namespace: 'x',
  name,
  uid: `u-${name}`,
})
const child = (kind: string, name: string, ownerUid: string): Child => ({
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
const short = (nodes: ReturnType<typeof nodesOf>) => nodes.map(({ name, owner_uid, health, message }) => [name, owner_uid, health, message])

test('members and what they own, each with its owner; what is well says nothing more', () => {
  expect(short(nodesOf(members, childrenOf, new Map()))).toEqual([
    ['web', undefined, 'healthy', undefined],
    ['c', undefined, 'healthy', undefined],
    ['web-1', 'u-web', 'healthy', undefined],
    ['web-1-a', 'u-web-1', 'healthy', undefined],
    ['web-1-b', 'u-web-1', 'healthy', undefined],
  ])
})

test('a member is as well as it was judged, what nobody judges by itself as what it owns; before a first look nobody knows', () => {
  const unwell = new Map([['u-web-1-b', { health: 'degraded' as const, message: 'CrashLoopBackOff' }]])
  expect(short(nodesOf(members, childrenOf, unwell))).toEqual([
    ['web', undefined, 'healthy', undefined],
    ['c', undefined, 'healthy', undefined],
    ['web-1', 'u-web', 'degraded', 'CrashLoopBackOff'],
    ['web-1-a', 'u-web-1', 'healthy', undefined],
    ['web-1-b', 'u-web-1', 'degraded', 'CrashLoopBackOff'],
  ])
  expect(nodesOf(members, childrenOf, null).map(({ health }) => health)).toEqual(['unknown', 'unknown', 'unknown', 'unknown', 'unknown'])
})

test('a member that was planned and never made is no node, a ring of owners ends, and there is a bound', () => {
  expect(nodesOf([{ group: '', kind: 'Pod', namespace: 'x', name: 'planned' }], childrenOf, new Map())).toEqual([])
  const ring = (uid: string) => [child('Pod', `${uid}-x`, uid)]
  expect(nodesOf([member('Pod', 'a')], ring, new Map())).toHaveLength(5)
  const many = Array.from({ length: nodesMax + 7 }, (_, n) => member('ConfigMap', `m${n}`))
  expect(nodesOf(many, () => [], new Map())).toHaveLength(nodesMax)
})

test('first everything is told, then what changed and what went, then nothing', () => {
  const before = nodesOf(members, childrenOf, new Map())
  expect(deltaOf(before, undefined)).toEqual({ full: true, nodes: before, removed_uids: [] })
  expect(deltaOf(before, toldOf(before))).toBeNull()
  const unwell = new Map([['u-c', { health: 'degraded' as const, message: 'Missing' }]])
  const after = nodesOf(members, (uid) => childrenOf(uid).filter(({ name }) => name !== 'web-1-a'), unwell)
  expect(deltaOf(after, toldOf(before))).toMatchObject({
    full: false,
    nodes: [{ name: 'c', health: 'degraded' }],
    removed_uids: ['u-web-1-a'],
  })
})
