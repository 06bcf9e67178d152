// What the block and the flow reader hand to each other: a scalar that is not yet a value, because it may turn out to be a key, or a
// finished collection. Anchors remember what an alias of them costs.
import type { JsonObject, JsonValue } from '../json-text.ts'
import { ManifestError, type SourceLocation } from '../manifest-error.ts'
import { checkDepth, spendAlias, spendNodes } from '../manifest-limits.ts'
import { Char } from './characters.ts'
import { type Cursor, syntaxErrorAt, toSourceLocation } from './cursor.ts'
import { type CoreTag, scalarKey, scalarValue } from './scalars.ts'

export interface Scalar extends SourceLocation {
  readonly kind: 'scalar'
  readonly text: string
  readonly plain: boolean
  readonly tag: CoreTag | null
}

export interface Collection extends SourceLocation {
  readonly kind: 'collection'
  readonly value: JsonObject | JsonValue[]
}

export type Node = Scalar | Collection

export interface Anchor {
  /** Null while the anchored node is being read. */
  node: Node | null
  /** Values and levels that each alias adds. */
  nodes: number
  levels: number
  readonly deepestBefore: number
}

export const emptyScalar = (place: SourceLocation): Scalar => ({
  kind: 'scalar',
  text: '',
  plain: true,
  tag: null,
  line: place.line,
  column: place.column,
})

export function toJsonValue(at: Cursor, node: Node): JsonValue {
  if (node.kind === 'collection') return node.value
  spendNodes(at.budget, 1, node)
  return scalarValue(node)
}

export function toKeyText(node: Node): string {
  if (node.kind === 'scalar') return scalarKey(node)
  throw new ManifestError('bad_key', node, { what: 'a map or a list is used as a key', todo: 'use a text' })
}

/** Registered as soon as its name is read, so that an alias inside the node is seen to contain itself. */
export function openAnchor(at: Cursor, name: string, depth: number): Anchor {
  const anchor: Anchor = { node: null, nodes: at.budget.nodes, levels: 0, deepestBefore: at.deepest }
  at.deepest = depth
  at.anchors.set(name, anchor)
  return anchor
}

export function closeAnchor(at: Cursor, anchor: Anchor, node: Node, depth: number): void {
  anchor.node = node
  anchor.nodes = at.budget.nodes - anchor.nodes
  anchor.levels = at.deepest - depth
  at.deepest = Math.max(at.deepest, anchor.deepestBefore)
}

/** The anchored node itself, not a copy: what it costs is paid before anything is expanded. */
export function readAlias(at: Cursor, depth: number): Node {
  const place = toSourceLocation(at)
  const anchor = at.anchors.get(readName(at))
  if (anchor === undefined) throw aliasError(place, 'an alias has no anchor before it in its document', 'define the anchor first')
  if (anchor.node === null) throw aliasError(place, 'an alias stands inside the value that it repeats', 'write the value out')
  spendAlias(at.budget, place)
  spendNodes(at.budget, anchor.nodes, place)
  checkDepth(at.budget, depth + anchor.levels, place)
  at.deepest = Math.max(at.deepest, depth + anchor.levels)
  return anchor.node
}

const aliasError = (place: SourceLocation, what: string, todo: string) => new ManifestError('bad_alias', place, { what, todo })

const namePattern = /[0-9A-Za-z_-]+(?=[\s?:,\]}%@`])/y

/** Name of an anchor or alias; the cursor stands on its & or *. */
export function readName(at: Cursor): string {
  namePattern.lastIndex = at.pos + 1
  const name = namePattern.exec(at.text)?.[0]
  if (name === undefined) throw syntaxErrorAt(at, 'the name of an anchor or alias', 'use letters, digits, - and _ alone')
  at.pos += 1 + name.length
  return name
}

export const startsProperty = (code: number): boolean => code === Char.ampersand || code === Char.exclamation
