// Anchor and tag of a node. Of the tags only the core ones exist here: they say what a scalar is and cannot make anything else.
import { ManifestError } from '../manifest-error.ts'
import { Char } from './characters.ts'
import { type Cursor, skipToToken, syntaxErrorAt, toSourceLocation } from './cursor.ts'
import { type Anchor, closeAnchor, type Node, openAnchor, readName, startsProperty } from './node.ts'
import type { CoreTag } from './scalars.ts'

export interface Properties {
  readonly anchor: Anchor | null
  readonly tag: CoreTag | null
}

export const noProperties: Properties = { anchor: null, tag: null }

/** Reads those that stand on this line (in a flow collection: all) and goes on to the next token. */
export function readProperties(at: Cursor, depth: number, inFlow: boolean): Properties {
  let properties = noProperties
  const { line } = at
  while (startsProperty(at.text.charCodeAt(at.pos))) {
    const isAnchor = at.text.charCodeAt(at.pos) === Char.ampersand
    const found: Properties = isAnchor ? { anchor: openAnchor(at, readName(at), depth), tag: null } : { anchor: null, tag: readTag(at) }
    properties = joinProperties(at, properties, found)
    at.fresh = false
    skipToToken(at, inFlow)
    if (!inFlow && at.line !== line) break
  }
  return properties
}

export function joinProperties(at: Cursor, one: Properties, other: Properties): Properties {
  if (one === noProperties) return other
  if ((one.anchor && other.anchor) || (one.tag && other.tag))
    throw syntaxErrorAt(at, 'a value has two anchors or two tags', 'keep one of them')
  return { anchor: one.anchor ?? other.anchor, tag: one.tag ?? other.tag }
}

/** Gives the node its tag and ends its anchor. */
export function withProperties(at: Cursor, properties: Properties, node: Node, depth: number): Node {
  if (properties === noProperties) return node
  const tagged = properties.tag === null ? node : withTag(node, properties.tag)
  if (properties.anchor !== null) closeAnchor(at, properties.anchor, tagged, depth)
  return tagged
}

function withTag(node: Node, tag: CoreTag): Node {
  const wanted = node.kind === 'scalar' ? null : Array.isArray(node.value) ? 'seq' : 'map'
  if (wanted === null && tag !== 'map' && tag !== 'seq') return { ...node, tag } as Node
  if (wanted === tag) return node
  throw new ManifestError('bad_tag', node, { what: 'a tag does not fit its value', todo: 'remove the tag' })
}

const coreTag = /!(?:!(str|int|float|bool|null|map|seq)|<tag:yaml\.org,2002:(str|int|float|bool|null|map|seq)>)(?=\s)/y

function readTag(at: Cursor): CoreTag {
  coreTag.lastIndex = at.pos
  const found = coreTag.exec(at.text)
  if (found === null)
    throw new ManifestError('bad_tag', toSourceLocation(at), {
      what: 'a tag other than !!str, !!int, !!float, !!bool, !!null, !!map and !!seq',
      todo: 'remove the tag',
    })
  at.pos += found[0].length
  return (found[1] ?? found[2]) as CoreTag
}
