// What stands in the cluster because of a stack, as the tree that people look at: its members and what these own. Names, owners and
// health, no content. Pure; also what of it the broker has not heard yet.
import type { Member } from '@brokkr/kube/applyset.ts'
import type { SetStatus } from '@brokkr/kube/health/summary.ts'

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
/** Something that a member, or a child of one, owns. */
export interface Child {
  readonly uid: string
  readonly group: string
  readonly kind: string
  readonly namespace: string
  readonly name: string
  readonly ownerUid: string
}
/** What is not well, by uid; null: nobody has looked yet. */
export type Unwell = ReadonlyMap<string, { readonly health: SetStatus; readonly message: string }> | null

export const nodesMax = 5_000
const hopsMax = 4

type Found = Omit<Child, 'ownerUid'> & { readonly ownerUid?: string }

export function nodesOf(members: readonly Member[], childrenOf: (uid: string) => readonly Child[], unwell: Unwell): TreeNode[] {
  const found: Found[] = members.flatMap((member) => (member.uid === undefined ? [] : [{ ...member, uid: member.uid }]))
  // Level by level: a member must not fall behind the bound because another one has many pods.
  let from = 0
  for (let hop = 0; hop < hopsMax && found.length < nodesMax; hop++) {
    const level = found.slice(from)
    from = found.length
    for (const { uid } of level) found.push(...childrenOf(uid))
  }
  const below = new Map<string, Judged>()
  return found
    .slice(0, nodesMax)
    .toReversed()
    .map((each) => nodeOf(each, unwell, below))
    .toReversed()
}

type Judged = { readonly health: SetStatus; readonly message: string }

/** Asked for what is below first. Members are judged as wholes; of the rest, such as a ReplicaSet, the worst that it owns counts. */
function nodeOf({ uid, group, kind, namespace, name, ownerUid }: Found, unwell: Unwell, below: Map<string, Judged>): TreeNode {
  const judged = unwell?.get(uid) ?? (ownerUid === undefined ? undefined : below.get(uid))
  if (judged && ownerUid !== undefined) below.set(ownerUid, worse(judged, below.get(ownerUid)))
  return {
    uid,
    group,
    kind,
    ...(namespace === '' ? {} : { namespace }),
    name,
    ...(ownerUid === undefined ? {} : { owner_uid: ownerUid }),
    health: judged?.health ?? (unwell === null ? 'unknown' : 'healthy'),
    ...(judged?.message ? { message: judged.message } : {}),
  }
}

const severity: readonly SetStatus[] = ['failing', 'degraded', 'unknown', 'healthy']

const worse = (a: Judged, b: Judged | undefined): Judged => (b && severity.indexOf(b.health) <= severity.indexOf(a.health) ? b : a)

/** What was told of each node that may change; the rest of it is as old as its uid. */
export type Told = ReadonlyMap<string, string>

export const toldOf = (nodes: readonly TreeNode[]): Told => new Map(nodes.map((node) => [node.uid, textOf(node)]))

/** The common case is one shared text. */
const textOf = ({ health, message, owner_uid }: TreeNode): string =>
  health === 'healthy' && message === undefined && owner_uid === undefined ? 'well' : `${health} ${owner_uid ?? ''} ${message ?? ''}`

export interface Delta {
  readonly full: boolean
  readonly nodes: readonly TreeNode[]
  readonly removed_uids: readonly string[]
}

/** Null: nothing is new. `before` undefined: nothing was told, so everything is. */
export function deltaOf(nodes: readonly TreeNode[], before: Told | undefined): Delta | null {
  if (before === undefined) return { full: true, nodes, removed_uids: [] }
  const changed = nodes.filter((node) => before.get(node.uid) !== textOf(node))
  const now = new Set(nodes.map(({ uid }) => uid))
  const removed = [...before.keys()].filter((uid) => !now.has(uid))
  return changed.length + removed.length === 0 ? null : { full: false, nodes: changed, removed_uids: removed }
}
