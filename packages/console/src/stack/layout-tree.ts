// Lays a resource tree out from left to right: leaves below each other, parents beside the middle of their children. Pure; folds leaves of
// one kind under one parent when the tree is large.
import type { TreeNode } from '@brokkr/contract/stacks/resource-tree.ts'

export interface PlacedNode {
  readonly uid: string
  readonly kind: string
  readonly name: string
  readonly health: string
  readonly message: string | null
  readonly namespace: string | null
  readonly x: number
  readonly y: number
  readonly width: number
  /** How many nodes this one stands for. */
  readonly folded: number
}
export interface Edge {
  readonly id: string
  readonly from: readonly [number, number]
  readonly to: readonly [number, number]
  /** Health of a child that needs a look. */
  readonly hot: 'failing' | 'degraded' | null
}
export interface TreeLayout {
  readonly nodes: readonly PlacedNode[]
  readonly edges: readonly Edge[]
  readonly width: number
  readonly height: number
}

const rowHeight = 34
const columnGap = 44
const foldAbove = 200
const widthOf = (kind: string, name: string): number =>
  Math.min(260, 74 + Math.max(28, kind.length * 6.2) + Math.min(name.length, 26) * 6.9)

type Item = Pick<TreeNode, 'uid' | 'kind' | 'name' | 'health' | 'message' | 'namespace'> & {
  readonly children: Item[]
  readonly folded: number
}

export function layoutTree(nodes: readonly TreeNode[], root: { name: string; health: string }): TreeLayout {
  const byOwner = Map.groupBy(nodes, ({ owner_uid }) => owner_uid ?? '')
  const known = new Set(nodes.map(({ uid }) => uid))
  const isLarge = nodes.length > foldAbove
  const seen = new Set<string>()
  const build = (node: TreeNode): Item => {
    seen.add(node.uid)
    const children = (byOwner.get(node.uid) ?? []).filter((child) => !seen.has(child.uid)).map(build)
    return { ...node, children: isLarge ? fold(children) : children, folded: 1 }
  }
  const tops = nodes.filter(({ owner_uid }) => owner_uid === null || !known.has(owner_uid)).map(build)
  const top: Item = {
    uid: 'root',
    kind: 'stack',
    name: root.name,
    health: root.health as TreeNode['health'],
    message: null,
    namespace: null,
    children: isLarge ? fold(tops) : tops,
    folded: 1,
  }
  return place(top)
}

/** Healthy leaves of one kind become one node. */
function fold(items: Item[]): Item[] {
  const groups = Map.groupBy(items, (item) => (item.children.length === 0 && item.health === 'healthy' ? item.kind : item.uid))
  return [...groups]
    .map(([kind, list]) => {
      const first = list[0]!
      return list.length < 4 ? list : [{ ...first, uid: `fold-${first.uid}`, name: `${list.length} × ${kind}`, folded: list.length }]
    })
    .flat()
}

function place(top: Item): TreeLayout {
  const columns: number[] = []
  const measure = (item: Item, depth: number): void => {
    columns[depth] = Math.max(columns[depth] ?? 0, widthOf(item.kind, item.name))
    for (const child of item.children) measure(child, depth + 1)
  }
  measure(top, 0)
  const starts = columns.map((_, depth) => columns.slice(0, depth).reduce((sum, width) => sum + width + columnGap, 0))
  const nodes: PlacedNode[] = []
  const edges: Edge[] = []
  let row = 0
  const walk = (item: Item, depth: number): number => {
    const ys = item.children.map((child) => walk(child, depth + 1))
    const y = ys.length === 0 ? row++ * rowHeight : (ys[0]! + ys.at(-1)!) / 2
    const { children, ...rest } = item
    const width = widthOf(item.kind, item.name)
    const x = starts[depth]!
    nodes.push({ ...rest, x, y, width })
    for (const [index, child] of children.entries()) {
      const hot = child.health === 'failing' || child.health === 'degraded' ? child.health : null
      edges.push({ id: child.uid, from: [x + width, y + 14], to: [starts[depth + 1]!, ys[index]! + 14], hot })
    }
    return y
  }
  walk(top, 0)
  return { nodes, edges, width: (starts.at(-1) ?? 0) + (columns.at(-1) ?? 0) + 4, height: Math.max(1, row) * rowHeight }
}
