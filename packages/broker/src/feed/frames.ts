// Frames as bytes: a stack's state is serialised once and the buffer is shared by every stream that follows it.
import type { Frame } from '@brokkr/contract/stream.ts'
import type { RevisionTexts } from '../revision-texts.ts'
import type { Sql } from '../store/sql.ts'
import type * as wanted from '../store/wanted.ts'

export type StackState = Pick<
  wanted.StackState,
  'stack_id' | 'stack_name' | 'rev' | 'drift' | 'object_id' | 'sequence_id' | 'is_deletion_marker' | 'yaml_checksum' | 'yaml_bytes'
> &
  Partial<Pick<wanted.LoadedState, 'yaml_sealed'>>
/** One line of a stream, ended by a line feed; its type beside it, so that nobody has to read it again. */
export interface WireFrame {
  readonly type: Frame['type']
  readonly line: Buffer
}
/** Content that cannot be sent: what the broker writes into the status of whoever should have got it. */
export type Skip = Extract<Frame, { type: 'skip' }>
export interface StackFrame extends WireFrame {
  readonly skip: Skip | null
}
export interface ContentLimits {
  /** Larger content travels by address. */
  readonly inlineBytes: number
  /** Larger content does not travel at all. */
  readonly objectBytesMax: number
}

export const wireFrame = (frame: Frame): WireFrame => ({ type: frame.type, line: Buffer.from(`${JSON.stringify(frame)}\n`) })

let lastBookmark = { cursor: '', frame: wireFrame({ type: 'bookmark', cursor: '' }) }

/** One batch has one cursor: its frame is made once for all streams. */
export function bookmarkFrame(cursor: string): WireFrame {
  if (lastBookmark.cursor !== cursor) lastBookmark = { cursor, frame: wireFrame({ type: 'bookmark', cursor }) }
  return lastBookmark.frame
}

/** Tells two states of one stack apart: another object at the same rev is another state. */
export const markOf = ({ rev, sequence_id, drift }: StackState): string => `${rev} ${sequence_id ?? '-'} ${drift}`

/** Splits states into pages, so that one load stays within `objects` and `bytes`. */
export function* pagesOf<S extends StackState>(
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

/** Loads what is not here yet of a page's content, and makes one put (or skip) per stack. */
export async function putFrames(
  { sql, texts, content }: { sql: Sql; texts: RevisionTexts; content: ContentLimits },
  states: readonly StackState[],
): Promise<Map<string, StackFrame>> {
  const missing = states.filter((state) => !state.yaml_sealed && isInline(state, content.inlineBytes))
  const loaded = await texts.load(
    sql,
    missing.map((state) => state.object_id!),
  )
  const textOf = ({ object_id, yaml_sealed }: StackState): string | null =>
    yaml_sealed ? openOrNull(texts, object_id!, yaml_sealed) : (loaded.get(object_id!) ?? null)
  return new Map(states.map((state) => [state.stack_id, stackFrame(content, state, textOf)]))
}

const isInline = ({ object_id, yaml_bytes }: StackState, inlineBytes: number): boolean =>
  object_id !== null && yaml_bytes !== null && yaml_bytes <= inlineBytes

type TextOf = (state: StackState) => string | null

function stackFrame(content: ContentLimits, state: StackState, textOf: TextOf): StackFrame {
  const frame = putFrame(content, state, textOf)
  return { ...wireFrame(frame), skip: frame.type === 'skip' ? frame : null }
}

function putFrame(content: ContentLimits, state: StackState, textOf: TextOf): Extract<Frame, { type: 'put' | 'skip' }> {
  const { stack_id, stack_name, rev, drift, object_id } = state
  const head = { type: 'put', stack_id, stack_name, rev, drift } as const
  if (object_id === null) return { ...head, object: null }
  if (state.yaml_bytes! > content.objectBytesMax)
    return skipFrame(state, 'too_large', `the object has ${state.yaml_bytes} bytes, at most ${content.objectBytesMax} are sent`)
  const object = {
    id: object_id,
    sequence_id: state.sequence_id!,
    is_deletion_marker: state.is_deletion_marker!,
    yaml_checksum: state.yaml_checksum!,
    bytes: state.yaml_bytes!,
  }
  if (!isInline(state, content.inlineBytes))
    return { ...head, object: { ...object, content_url: `/api/v1/deployment-objects/${object_id}` } }
  const text = textOf(state)
  if (text === null) return skipFrame(state, 'unreadable', 'the stored content is gone or cannot be opened with any key of the ring')
  return { ...head, object: { ...object, yaml_content: text } }
}

const skipFrame = (state: StackState, code: 'too_large' | 'unreadable', message: string): Skip => ({
  type: 'skip',
  stack_id: state.stack_id,
  rev: state.rev,
  object_id: state.object_id!,
  yaml_checksum: state.yaml_checksum!,
  code,
  message,
})

function openOrNull(texts: RevisionTexts, id: string, sealed: Buffer): string | null {
  try {
    return texts.open(id, sealed)
  } catch {
    return null // told to the agent as a skip; the rest of the batch goes on
  }
}
