// The inventory of a set of objects, kept in the cluster as KEP-3659 has it: a parent Secret names the kinds and namespaces in use, every
// member carries the set's id as a label. `kubectl` and other tools can read it. Reading and writing the parent's form is pure.
import { createHash } from 'node:crypto'
import { gunzipSync, gzipSync } from 'node:zlib'
import { isFields, textAt } from './fields.ts'
import { type GroupKind, groupKindText, type Identity, identityKey, type KubeObject } from './object.ts'

export const PART_OF_LABEL = 'applyset.kubernetes.io/part-of'
export const ID_LABEL = 'applyset.kubernetes.io/id'
const TOOLING = 'applyset.kubernetes.io/tooling'
const KINDS = 'applyset.kubernetes.io/contains-group-kinds'
const NAMESPACES = 'applyset.kubernetes.io/additional-namespaces'
const INVENTORY = 'inventory.json.gz'

export interface Member extends Identity {
  /** Known once the object was seen; a member without it was planned and perhaps never made. */
  uid?: string
}

export interface ApplySet {
  name: string
  namespace: string
  kinds: GroupKind[]
  /** Of the members, the parent's own included if one lives there. */
  namespaces: string[]
  members: Member[]
  /** Further entries of the parent Secret, in plain bytes. */
  data: Record<string, Buffer>
  /** Of the parent, as it was read. */
  resourceVersion?: string | undefined
}

export interface ParentForm {
  /** `brokkr/v1.2.3` */
  tooling: string
  /** Type of the Secret. */
  type: string
  labels?: Record<string, string>
}

/** The parent belongs to another tool, or is not a parent at all: we neither read nor write it. */
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
  const members = inventory ? decodeMembers(inventory, refuse) : []
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

/** A megabyte is what a Secret holds; compressed JSON may be twenty times that. */
const INVENTORY_BYTES_MAX = 64 * 1024 * 1024

function decodeMembers(bytes: Buffer, refuse: (why: string) => ForeignApplySet): Member[] {
  let rows: unknown
  try {
    rows = JSON.parse(gunzipSync(bytes, { maxOutputLength: INVENTORY_BYTES_MAX }).toString('utf8'))
  } catch {
    throw refuse(`its ${INVENTORY} cannot be read`)
  }
  if (!Array.isArray(rows)) throw refuse(`its ${INVENTORY} is not a list`)
  return rows.filter(isFields).map((row) => {
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
 * Before the apply: everything that is or may come into being. A crash after this leaves the parent naming too much, never too little,
 * so nothing that was written can be forgotten.
 */
export function widen(set: ApplySet, planned: readonly Identity[]): ApplySet {
  const members = new Map(set.members.map((member) => [identityKey(member), member]))
  for (const identity of planned) if (!members.has(identityKey(identity))) members.set(identityKey(identity), memberRow(identity))
  return rebuild(set, [...members.values()], set)
}

/** After apply and prune: exactly what stands. */
export const shrink = (set: ApplySet, present: readonly Member[]): ApplySet => rebuild(set, present, { kinds: [], namespaces: [] })

function rebuild(set: ApplySet, members: readonly Member[], kept: Pick<ApplySet, 'kinds' | 'namespaces'>): ApplySet {
  return {
    ...set,
    members: members.map(memberRow),
    kinds: uniqueKinds([...kept.kinds, ...members]),
    namespaces: sortedUnique([...kept.namespaces, ...members.map(({ namespace }) => namespace).filter((text) => text !== '')]),
  }
}
