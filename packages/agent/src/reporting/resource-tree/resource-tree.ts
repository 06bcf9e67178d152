// The resource tree of a stack: its members and the objects they own, with names, owners and health. Pure; also computes the difference
// to the reported tree.
import type { Member, SetStatus } from '@brokkr/kube'

export interface TreeNode {
  readonly uid: string
  readonly group: string
  readonly kind: string
  readonly namespace?: string
  readonly name: string
  readonly owner_uid?: string
  readonly health: SetStatus
  readonly message?: string
}
/** An object owned by a member or by another owned object. */
export interface OwnedObject {
  readonly uid: string
  readonly group: string
  readonly kind: string
  readonly namespace: string
  readonly name: string
  readonly ownerUid: string
}
/** Unhealthy objects by uid; null: not checked yet. */
export type Unwell = ReadonlyMap<string, { readonly health: SetStatus; readonly message: string }> | null

export const nodesMax = 5_000
const hopsMax = 4

type TreeObject = Omit<OwnedObject, 'ownerUid'> & { readonly ownerUid?: string }

export function buildTree(members: readonly Member[], childrenOf: (uid: string) => readonly OwnedObject[], unwell: Unwell): TreeNode[] {
  const nodes: TreeObject[] = members.flatMap((member) => (member.uid === undefined ? [] : [{ ...member, uid: member.uid }]))
  // Breadth first: a member must not be cut off because another one has many pods.
  let from = 0
  for (let hop = 0; hop < hopsMax && nodes.length < nodesMax; hop++) {
    const level = nodes.slice(from)
    from = nodes.length
    for (const { uid } of level) nodes.push(...childrenOf(uid))
  }
  const below = new Map<string, NodeHealth>()
  return nodes
    .slice(0, nodesMax)
    .toReversed()
    .map((each) => toNode(each, unwell, below))
    .toReversed()
}

type NodeHealth = { readonly health: SetStatus; readonly message: string }

/** Computes children first. Members have their own health; other nodes, such as ReplicaSets, take the worst of their children. */
function toNode({ uid, group, kind, namespace, name, ownerUid }: TreeObject, unwell: Unwell, below: Map<string, NodeHealth>): TreeNode {
  const health = unwell?.get(uid) ?? (ownerUid === undefined ? undefined : below.get(uid))
  if (health && ownerUid !== undefined) below.set(ownerUid, worse(health, below.get(ownerUid)))
  return {
    uid,
    group,
    kind,
    ...(namespace === '' ? {} : { namespace }),
    name,
    ...(ownerUid === undefined ? {} : { owner_uid: ownerUid }),
    health: health?.health ?? (unwell === null ? 'unknown' : 'healthy'),
    ...(health?.message ? { message: health.message } : {}),
  }
}

const severity: readonly SetStatus[] = ['failing', 'degraded', 'unknown', 'healthy']

const worse = (a: NodeHealth, b: NodeHealth | undefined): NodeHealth =>
  b && severity.indexOf(b.health) <= severity.indexOf(a.health) ? b : a

/** Reported mutable fields of each node; all other fields are fixed by the uid. */
export type ReportedNodes = ReadonlyMap<string, string>

export const toReportedNodes = (nodes: readonly TreeNode[]): ReportedNodes => new Map(nodes.map((node) => [node.uid, toNodeText(node)]))

/** Most nodes share one text. */
const toNodeText = ({ health, message, owner_uid }: TreeNode): string =>
  health === 'healthy' && message === undefined && owner_uid === undefined ? 'well' : `${health} ${owner_uid ?? ''} ${message ?? ''}`

export interface Delta {
  readonly full: boolean
  readonly nodes: readonly TreeNode[]
  readonly removed_uids: readonly string[]
}

/** Null: no change. `before` undefined: nothing was reported yet. */
export function toDelta(nodes: readonly TreeNode[], before: ReportedNodes | undefined): Delta | null {
  if (before === undefined) return { full: true, nodes, removed_uids: [] }
  const changed = nodes.filter((node) => before.get(node.uid) !== toNodeText(node))
  const now = new Set(nodes.map(({ uid }) => uid))
  const removed = [...before.keys()].filter((uid) => !now.has(uid))
  return changed.length + removed.length === 0 ? null : { full: false, nodes: changed, removed_uids: removed }
}
