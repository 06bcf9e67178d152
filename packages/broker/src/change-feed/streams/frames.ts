// Builds frames as bytes. A stack's state is serialized once, and all its streams share the buffer.
import type { Frame } from '@brokkr/contract/feed/stream.ts'
import type { Sql } from '@brokkr/postgres'
import type { ManifestCache } from '../../deployments/manifest-cache.ts'
import type * as wanted from '../../targeting/store/desired-state.ts'

export type StackState = Pick<
  wanted.StackState,
  'stack_id' | 'stack_name' | 'rev' | 'drift' | 'object_id' | 'sequence_id' | 'is_deletion_marker' | 'yaml_checksum' | 'yaml_bytes'
> &
  Partial<Pick<wanted.LoadedState, 'yaml_sealed'>>
/** A serialized frame: one line with its line feed, and its type. */
export interface WireFrame {
  readonly type: Frame['type']
  readonly line: Buffer
}
/** A manifest that cannot be sent; the broker records it in the status of the stack's agents. */
export type Skip = Extract<Frame, { type: 'skip' }>
export interface StackFrame extends WireFrame {
  readonly skip: Skip | null
}
export interface ContentLimits {
  /** Larger manifests are sent as a URL. */
  readonly inlineBytes: number
  /** Larger manifests are not sent. */
  readonly objectBytesMax: number
}

export const toWireFrame = (frame: Frame): WireFrame => ({ type: frame.type, line: Buffer.from(`${JSON.stringify(frame)}\n`) })

let lastBookmark = { cursor: '', frame: toWireFrame({ type: 'bookmark', cursor: '' }) }

/** Cached, because all streams of a batch get the same bookmark. */
export function getBookmarkFrame(cursor: string): WireFrame {
  if (lastBookmark.cursor !== cursor) lastBookmark = { cursor, frame: toWireFrame({ type: 'bookmark', cursor }) }
  return lastBookmark.frame
}

/** Identifies a state of a stack: another deployment object at the same `rev` is another state. */
export const toStateKey = ({ rev, sequence_id, drift }: StackState): string => `${rev} ${sequence_id ?? '-'} ${drift}`

/** Splits states into pages of at most `objects` states and `bytes` of inline manifests. */
export function* splitIntoPages<S extends StackState>(
  states: readonly S[],
  limits: { objects: number; bytes: number; inlineBytes: number },
): Iterable<S[]> {
  let page: S[] = []
  let bytes = 0
  for (const state of states) {
    const size = isInline(state, limits.inlineBytes) ? state.yaml_bytes! : 0
    if (page.length > 0 && (page.length >= limits.objects || bytes + size > limits.bytes)) {
      yield page
      page = []
      bytes = 0
    }
    page.push(state)
    bytes += size
  }
  if (page.length > 0) yield page
}

/** Loads the missing manifests of a page and builds one put or skip per stack. */
export async function buildPutFrames(
  { sql, texts, content }: { sql: Sql; texts: ManifestCache; content: ContentLimits },
  states: readonly StackState[],
): Promise<Map<string, StackFrame>> {
  const missing = states.filter((state) => !state.yaml_sealed && isInline(state, content.inlineBytes))
  const loaded = await texts.load(
    sql,
    missing.map((state) => state.object_id!),
  )
  const findManifest = ({ object_id, yaml_sealed }: StackState): string | null =>
    yaml_sealed ? openOrNull(texts, object_id!, yaml_sealed) : (loaded.get(object_id!) ?? null)
  return new Map(states.map((state) => [state.stack_id, buildStackFrame(content, state, findManifest)]))
}

const isInline = ({ object_id, yaml_bytes }: StackState, inlineBytes: number): boolean =>
  object_id !== null && yaml_bytes !== null && yaml_bytes <= inlineBytes

type FindManifest = (state: StackState) => string | null

function buildStackFrame(content: ContentLimits, state: StackState, findManifest: FindManifest): StackFrame {
  const frame = buildPutFrame(content, state, findManifest)
  return { ...toWireFrame(frame), skip: frame.type === 'skip' ? frame : null }
}

function buildPutFrame(content: ContentLimits, state: StackState, findManifest: FindManifest): Extract<Frame, { type: 'put' | 'skip' }> {
  const { stack_id, stack_name, rev, drift, object_id } = state
  const head = { type: 'put', stack_id, stack_name, rev, drift } as const
  if (object_id === null) return { ...head, object: null }
  if (state.yaml_bytes! > content.objectBytesMax)
    return buildSkipFrame(state, 'too_large', `the manifest has ${state.yaml_bytes} bytes; at most ${content.objectBytesMax} are sent`)
  const object = {
    id: object_id,
    sequence_id: state.sequence_id!,
    is_deletion_marker: state.is_deletion_marker!,
    yaml_checksum: state.yaml_checksum!,
    bytes: state.yaml_bytes!,
  }
  if (!isInline(state, content.inlineBytes))
    return { ...head, object: { ...object, content_url: `/api/v1/deployment-objects/${object_id}` } }
  const text = findManifest(state)
  if (text === null) return buildSkipFrame(state, 'unreadable', 'the stored manifest is missing or no key of the key ring can decrypt it')
  return { ...head, object: { ...object, yaml_content: text } }
}

const buildSkipFrame = (state: StackState, code: 'too_large' | 'unreadable', message: string): Skip => ({
  type: 'skip',
  stack_id: state.stack_id,
  rev: state.rev,
  object_id: state.object_id!,
  yaml_checksum: state.yaml_checksum!,
  code,
  message,
})

function openOrNull(texts: ManifestCache, id: string, sealed: Buffer): string | null {
  try {
    return texts.open(id, sealed)
  } catch {
    return null // becomes a skip frame; other frames of the batch are not affected
  }
}
