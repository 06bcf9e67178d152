// The value that a marker asks for, and how it is written in YAML: quote style kept, quotes added where a plain text would be read as
// something else than that string. Pure.
import { parseDocument } from 'yaml'

export type MarkerReason = 'MarkerNotFound' | 'MarkerUnsupported' | 'MarkerUnreadable' | 'FileTooLarge'

/** `message` names file and line. */
export class MarkerError extends Error {
  override readonly name = 'MarkerError'
  readonly reason: MarkerReason

  constructor(reason: MarkerReason, message: string) {
    super(message)
    this.reason = reason
  }
}

/** A problem without its place; the caller adds file and line. */
export class ValueProblem extends Error {
  override readonly name = 'ValueProblem'
}

/** Null: the marker belongs to another environment. The suffix is empty where there is none. */
export function suffixFor(markerValue: string, owner: string): string | null {
  if (markerValue === owner) return ''
  return markerValue.startsWith(`${owner}:`) ? markerValue.slice(owner.length + 1) : null
}

/** The new value of a scalar that reads `before`. Throws ValueProblem. */
export function valueFor(suffix: string, before: string, revision: string): string {
  switch (suffix) {
    case '':
      return revision
    case 'tag':
      return withTag(before, revision)
    case 'digest':
      return withDigest(before, revision)
    case 'ref':
      return revision.split('@')[0]!
    case 'sha':
      return hashOf(revision)
    case 'version':
      return revision.split('+')[0]!
    default:
      throw new ValueProblem(`the suffix ":${suffix}" is not known; use none, :tag, :digest, :ref, :sha or :version`)
  }
}

/** The revision that a marked value holds; null: it cannot be read back. The reverse of `valueFor` for suffixes that keep it whole. */
export function revisionFrom(suffix: string, value: string): string | null {
  if (suffix === '') return value
  if (suffix !== 'tag') return null
  const name = value.split('@')[0]!
  const colon = name.indexOf(':', name.lastIndexOf('/') + 1)
  return colon < 0 ? null : name.slice(colon + 1)
}

/** The tag follows the last path segment, so that the port of a registry is no tag. */
function withTag(image: string, tag: string): string {
  const name = image.split('@')[0]!
  const segment = name.lastIndexOf('/') + 1
  const colon = name.indexOf(':', segment)
  const withoutTag = colon < 0 ? name : name.slice(0, colon)
  if (withoutTag.length === segment) throw new ValueProblem('the value is not an image reference')
  return `${withoutTag}:${tag}`
}

function withDigest(image: string, revision: string): string {
  if (!/^sha256:[0-9a-f]{64}$/.test(revision)) throw new ValueProblem('the suffix ":digest" needs a revision of the form sha256:…')
  const at = image.indexOf('@')
  if (at < 0) throw new ValueProblem('the value has no "@", so the suffix ":digest" has nothing to replace')
  return `${image.slice(0, at + 1)}${revision}`
}

function hashOf(revision: string): string {
  const hash = /(?:^|[^a-z0-9])sha(?:1|256):([0-9a-f]+)$/.exec(revision)?.[1]
  if (hash === undefined) throw new ValueProblem('the suffix ":sha" needs a revision that ends in sha1:… or sha256:…')
  return hash
}

/** YAML text of a string in the style of the scalar it replaces. */
export function renderScalar(value: string, type: string | undefined): string {
  if (type === 'QUOTE_SINGLE') return `'${value.replaceAll("'", "''")}'`
  if (type === 'QUOTE_DOUBLE') return JSON.stringify(value)
  return readsAsItself(value) ? value : JSON.stringify(value)
}

/** Characters that need no quotes in any place, flow collections included. */
const PLAIN = /^[A-Za-z0-9_./][A-Za-z0-9_./@+-]*(?::[A-Za-z0-9_./@+-]+)*$/

function readsAsItself(value: string): boolean {
  if (!PLAIN.test(value)) return false
  return (['1.1', '1.2'] as const).every((version) => parseDocument(value, { version }).toJS() === value)
}
