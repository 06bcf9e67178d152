// Edits the marked values of one YAML file and keeps every other byte. A marker is a comment that holds a JSON object with `$promotion`.
// It stands on the line where its scalar ends, or alone on the line above its entry; it is found by line, not by the parser's attachment.
import { MarkerError, type MarkerReason, renderScalar, revisionFrom, suffixFor, ValueProblem, valueFor } from './marker-value.ts'
import { type ParsedStream, parseStream, type StreamComment, type StreamNode } from './yaml-stream.ts'

export { MarkerError } from './marker-value.ts'

export interface MarkerEdit {
  /** For messages. */
  readonly path: string
  /** `{namespace}:{pipeline}:{environment}` */
  readonly owner: string
  readonly revision: string
}

const FILE_BYTES_MAX = 1024 * 1024

/** Null: the file has no marker of this owner. The same bytes: every marked value is right already. Throws MarkerError. */
export function editMarkers(content: Uint8Array, edit: MarkerEdit): Uint8Array | null {
  if (!mayHoldMarker(Buffer.from(content).toString('latin1'), edit.owner)) return null
  if (content.length > FILE_BYTES_MAX) throw problem('FileTooLarge', edit, `${content.length} bytes, at most ${FILE_BYTES_MAX}`)
  const text = decode(content, edit)
  const stream = parse(text, edit)
  const changes = findChanges(stream, edit)
  if (changes === null) return null
  const result = splice(text, changes)
  checkResult(stream, changes, { ...edit, result })
  return new TextEncoder().encode(result)
}

/** The revision that the markers of this owner hold now; null: there is none. Throws MarkerError where they differ. */
export function readMarkers(content: Uint8Array, at: Omit<MarkerEdit, 'revision'>): string | null {
  const edit = { ...at, revision: '' }
  if (!mayHoldMarker(Buffer.from(content).toString('latin1'), at.owner)) return null
  const stream = parse(decode(content, edit), edit)
  const revisions = stream.comments.flatMap((comment) => {
    const suffix = suffixOf(comment.text, at.owner)
    return suffix === null ? [] : [revisionAt(stream, comment, suffix, edit)]
  })
  if (new Set(revisions).size > 1) throw problem('MarkerUnsupported', edit, `its markers hold different revisions: ${revisions.join(', ')}`)
  return revisions[0] ?? null
}

function revisionAt(stream: ParsedStream, comment: StreamComment, suffix: string, edit: MarkerEdit): string {
  const node = nodeAt(stream, comment)
  const revision = node?.kind === 'scalar' ? revisionFrom(suffix, textOf(node)) : null
  if (revision === null) throw problem('MarkerUnsupported', edit, 'the revision cannot be read back from this marker', comment.line)
  return revision
}

const nodeAt = (stream: ParsedStream, comment: StreamComment): StreamNode | null =>
  comment.isAlone ? stream.entryOnLine(comment.line + 1) : stream.valueBefore(comment.offset)

interface Change {
  readonly node: StreamNode
  readonly value: string
  readonly line: number
}

/** A test on the text, so that files of others are not parsed: broken files of other owners block nobody. */
function mayHoldMarker(text: string, owner: string): boolean {
  return text.split('\n').some((line) => {
    const start = line.indexOf('"$promotion"')
    return start >= 0 && line.includes(owner, start)
  })
}

function decode(content: Uint8Array, edit: MarkerEdit): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(content)
  } catch {
    throw problem('MarkerUnreadable', edit, 'the file is not UTF-8')
  }
}

function parse(text: string, edit: MarkerEdit): ParsedStream {
  const stream = parseStream(text)
  if ('error' in stream) throw problem('MarkerUnreadable', edit, stream.error, stream.line)
  return stream
}

/** In order of the text, each scalar once; null: no marker is ours. */
function findChanges(stream: ParsedStream, edit: MarkerEdit): Change[] | null {
  const changes = new Map<StreamNode, Change>()
  let hasMarker = false
  for (const comment of stream.comments) {
    const suffix = suffixOf(comment.text, edit.owner)
    if (suffix === null) continue
    hasMarker = true
    const change = changeOf(nodeAt(stream, comment), { suffix, line: comment.line, edit })
    const other = changes.get(change.node)
    if (other !== undefined && other.value !== change.value)
      throw problem('MarkerUnsupported', edit, 'two markers ask for different values', comment.line)
    changes.set(change.node, change)
  }
  return hasMarker ? [...changes.values()].toSorted((a, b) => a.node.start - b.node.start) : null
}

/** Null: no marker, or one of another environment. */
function suffixOf(comment: string, owner: string): string | null {
  if (!comment.includes('"$promotion"')) return null
  try {
    const marker: unknown = JSON.parse(comment)
    const value = typeof marker === 'object' && marker !== null ? (marker as Record<string, unknown>)['$promotion'] : undefined
    return typeof value === 'string' ? suffixFor(value, owner) : null
  } catch {
    return null
  }
}

function changeOf(node: StreamNode | null, at: { suffix: string; line: number; edit: MarkerEdit }): Change {
  const refuse = (why: string) => problem('MarkerUnsupported', at.edit, why, at.line)
  if (node === null) throw refuse('the marker has no scalar at its place')
  if (node.kind !== 'scalar') throw refuse(`the marker stands at ${node.kind === 'alias' ? 'an alias' : 'a collection'}`)
  if (node.start === node.end) throw refuse('the marked value is empty')
  if (node.type?.startsWith('BLOCK_')) throw refuse('the marker stands at a block scalar')
  try {
    return { node, value: valueFor(at.suffix, textOf(node), at.edit.revision), line: at.line }
  } catch (error) {
    if (error instanceof ValueProblem) throw refuse(error.message)
    throw error
  }
}

const textOf = (node: StreamNode): string => (typeof node.value === 'string' ? node.value : node.source)

/** A plain `5` is the revision "5"; a plain `6.10` is the number 6.1 and not the revision "6.10". */
const isRight = ({ node, value }: Change): boolean => String(node.value) === value

function splice(text: string, changes: readonly Change[]): string {
  let result = text
  for (const change of changes.toReversed()) {
    if (isRight(change)) continue
    const { node, value } = change
    result = result.slice(0, node.start) + renderScalar(value, node.type) + result.slice(node.end)
  }
  return result
}

/** The result must be the same stream but for the marked values. */
function checkResult(before: ParsedStream, changes: readonly Change[], edit: MarkerEdit & { result: string }): void {
  const line = changes[0]?.line
  const after = parseStream(edit.result)
  if ('error' in after || after.nodes.length !== before.nodes.length)
    throw problem('MarkerUnsupported', edit, 'the revision cannot be written at this place', line)
  const wanted = new Map(changes.map((change) => [change.node, change]))
  for (const [index, node] of before.nodes.entries()) {
    const now = after.nodes[index]!
    const change = wanted.get(node)
    const isSame = now.kind === node.kind && (node.kind !== 'scalar' || now.source === node.source)
    const isWanted = change !== undefined && (isRight(change) ? isSame : now.value === change.value)
    if (change === undefined ? !isSame : !isWanted)
      throw problem('MarkerUnsupported', edit, 'the revision cannot be written at this place', change?.line ?? line)
  }
}

function problem(reason: MarkerReason, { path }: MarkerEdit, why: string, line?: number): MarkerError {
  return new MarkerError(reason, `${path}${line === undefined ? '' : `:${line}`}: ${why}`)
}
