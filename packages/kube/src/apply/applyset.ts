// The inventory of a set of objects as an ApplySet (KEP-3659): a parent Secret names the kinds and namespaces in use, and each member has the
// ApplySet's id as a label. `kubectl` and other tools can read it. Pure.
import { createHash } from 'node:crypto'
import { gunzipSync, gzipSync } from 'node:zlib'
import { isFields, textAt } from '../client/fields.ts'
import { type GroupKind, groupKindText, type Identity, identityKey, type KubeObject } from '../client/object.ts'

export const PART_OF_LABEL = 'applyset.kubernetes.io/part-of'
export const ID_LABEL = 'applyset.kubernetes.io/id'
const TOOLING = 'applyset.kubernetes.io/tooling'
const KINDS = 'applyset.kubernetes.io/contains-group-kinds'
const NAMESPACES = 'applyset.kubernetes.io/additional-namespaces'
const INVENTORY = 'inventory.json.gz'

export interface Member extends Identity {
  /** Known after the object was seen; a member without uid was planned and possibly never created. */
  uid?: string
}

export interface ApplySet {
  name: string
  namespace: string
  kinds: GroupKind[]
  /** Namespaces of the members, including the parent's own if a member is in it. */
  namespaces: string[]
  members: Member[]
  /** Further entries of the parent Secret, decoded. */
  data: Record<string, Buffer>
  /** resourceVersion of the parent when it was read. */
  resourceVersion?: string | undefined
}

export interface ParentForm {
  /** `brokkr/v1.2.3` */
  tooling: string
  /** Type of the Secret. */
  type: string
  labels?: Record<string, string>
}

/** The parent belongs to another tool or is not a parent: it is neither read nor written. */
export class ForeignApplySet extends Error {
  override readonly name = 'ForeignApplySet'
}

export function applySetId(parent: { name: string; namespace: string }): string {
  const hash = createHash('sha256').update(`${parent.name}.${parent.namespace}.Secret.`).digest('base64url')
  return `applyset-${hash}-v1`
}

export const emptyApplySet = (parent: { name: string; namespace: string }): ApplySet => ({
  ...parent,
  kinds: [],
  namespaces: [],
  members: [],
  data: {},
})

export function encodeApplySet(set: ApplySet, form: ParentForm): KubeObject {
  const entries = { ...set.data, [INVENTORY]: gzipSync(JSON.stringify(set.members.map(memberRow)), { level: 6 }) }
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: {
      name: set.name,
      namespace: set.namespace,
      labels: { ...form.labels, [ID_LABEL]: applySetId(set) },
      annotations: {
        [TOOLING]: form.tooling,
        [KINDS]: sortedUnique(set.kinds.map(groupKindText)).join(','),
        [NAMESPACES]: sortedUnique(set.namespaces.filter((name) => name !== '' && name !== set.namespace)).join(','),
      },
    },
    type: form.type,
    data: Object.fromEntries(Object.entries(entries).map(([key, bytes]) => [key, bytes.toString('base64')])),
  }
}

const memberRow = ({ group, kind, namespace, name, uid }: Member): Member => ({ group, kind, namespace, name, ...(uid ? { uid } : {}) })

const sortedUnique = (texts: readonly string[]): string[] => [...new Set(texts)].toSorted((a, b) => (a < b ? -1 : 1))

export function decodeApplySet(secret: KubeObject, form: Pick<ParentForm, 'tooling'>): ApplySet {
  const { name, namespace = '' } = secret.metadata
  const tool = textAt(secret.metadata.annotations, TOOLING) ?? ''
  const refuse = (why: string) =>
    new ForeignApplySet(`Secret ${namespace}/${name}: ${why}. It is left as it is; remove it or choose another name`)
  if (toolName(tool) !== toolName(form.tooling))
    throw refuse(`is the parent of a set of ${JSON.stringify(tool)}, not of ${toolName(form.tooling)}`)
  if (secret.metadata.labels?.[ID_LABEL] !== applySetId({ name, namespace }))
    throw refuse(`its label ${ID_LABEL} is not the id of this name`)
  const { [INVENTORY]: inventory, ...data } = decodeData(secret)
  // Every parent that we wrote has an inventory, so a parent without one says nothing about its members.
  if (!inventory) throw refuse(`has no ${INVENTORY}`)
  const members = decodeMembers(inventory, refuse)
  const annotated = (key: string) => (textAt(secret.metadata.annotations, key) ?? '').split(',').filter((text) => text !== '')
  return {
    name,
    namespace,
    kinds: uniqueKinds([...annotated(KINDS).map(parseGroupKind), ...members.map(({ group, kind }) => ({ group, kind }))]),
    namespaces: sortedUnique([...annotated(NAMESPACES), ...members.map((member) => member.namespace).filter((text) => text !== '')]),
    members,
    data,
    resourceVersion: secret.metadata.resourceVersion,
  }
}

const toolName = (tooling: string): string => tooling.split('/')[0] ?? ''

function decodeData(secret: KubeObject): Record<string, Buffer> {
  const entries = Object.entries(secret.data ?? {}).map(([key, value]) => [key, Buffer.from(String(value), 'base64')] as const)
  return Object.fromEntries(entries)
}

/** A Secret holds one megabyte; decompressed JSON can be twenty times as large. */
const INVENTORY_BYTES_MAX = 64 * 1024 * 1024

function decodeMembers(bytes: Buffer, refuse: (why: string) => ForeignApplySet): Member[] {
  let rows: unknown
  try {
    rows = JSON.parse(gunzipSync(bytes, { maxOutputLength: INVENTORY_BYTES_MAX }).toString('utf8'))
  } catch {
    throw refuse(`its ${INVENTORY} cannot be read`)
  }
  if (!Array.isArray(rows)) throw refuse(`its ${INVENTORY} is not a list`)
  if (!rows.every((row) => isFields(row) && textAt(row, 'kind') && textAt(row, 'name'))) throw refuse(`its ${INVENTORY} names no object`)
  return rows.map((row) => {
    const uid = textAt(row, 'uid')
    const text = (key: string) => textAt(row, key) ?? ''
    return { group: text('group'), kind: text('kind'), namespace: text('namespace'), name: text('name'), ...(uid ? { uid } : {}) }
  })
}

export function parseGroupKind(text: string): GroupKind {
  const dot = text.indexOf('.')
  return dot === -1 ? { group: '', kind: text } : { group: text.slice(dot + 1), kind: text.slice(0, dot) }
}

const uniqueKinds = (kinds: readonly GroupKind[]): GroupKind[] => sortedUnique(kinds.map(groupKindText)).map(parseGroupKind)

/**
 * Before the apply: adds everything that exists or may be created. After a crash the parent names too much, never too little, so no
 * written object is lost.
 */
export function addPlannedMembers(set: ApplySet, planned: readonly Identity[]): ApplySet {
  const members = new Map(set.members.map((member) => [identityKey(member), member]))
  for (const identity of planned) if (!members.has(identityKey(identity))) members.set(identityKey(identity), memberRow(identity))
  return rebuild(set, [...members.values()], set)
}

/** After apply and prune: exactly the existing members. */
export const keepMembers = (set: ApplySet, present: readonly Member[]): ApplySet => rebuild(set, present, { kinds: [], namespaces: [] })

function rebuild(set: ApplySet, members: readonly Member[], kept: Pick<ApplySet, 'kinds' | 'namespaces'>): ApplySet {
  return {
    ...set,
    members: members.map(memberRow),
    kinds: uniqueKinds([...kept.kinds, ...members]),
    namespaces: sortedUnique([...kept.namespaces, ...members.map(({ namespace }) => namespace).filter((text) => text !== '')]),
  }
}
