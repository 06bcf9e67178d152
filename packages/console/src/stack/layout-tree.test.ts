import type { TreeNode } from '@brokkr/contract/stacks/resource-tree.ts'
import { expect, test } from 'vitest'
import { layoutTree } from './layout-tree.ts'

const node = (uid: string, owner_uid: string | null, health: TreeNode['health'] = 'healthy'): TreeNode => ({
  uid,
  group: '',
  kind: 'Pod',
  namespace: 'x',
  name: uid,
  owner_uid,
  health,
  message: null,
})
const root = { name: 'shop', health: 'healthy' }

test('leaves are below each other, a parent is beside the middle of its children', () => {
  const { nodes, edges } = layoutTree([node('a', null), node('a1', 'a'), node('a2', 'a'), node('b', null)], root)
  const y = (uid: string) => nodes.find((one) => one.uid === uid)!.y
  expect([y('a1'), y('a2'), y('b')]).toEqual([0, 34, 68])
  expect(y('a')).toBe(17)
  expect(edges).toHaveLength(4)
})

test('a node whose owner is not part of the tree is at the top, and a cycle ends', () => {
  expect(layoutTree([node('a', 'elsewhere')], root).nodes).toHaveLength(2)
  expect(layoutTree([node('a', 'b'), node('b', 'a'), node('c', null)], root).nodes.map(({ uid }) => uid)).toContain('c')
})

test('a large tree folds healthy leaves of one kind and keeps those that fail', () => {
  const many = Array.from({ length: 2_000 }, (_, index) => node(`p${index}`, 'owner', index === 7 ? 'failing' : 'healthy'))
  const { nodes } = layoutTree([node('owner', null), ...many], root)
  expect(nodes.map(({ name }) => name).toSorted()).toEqual(['1999 × Pod', 'owner', 'p7', 'shop'])
})
