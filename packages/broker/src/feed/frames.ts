// Frames as bytes: a stack's state is serialised once and the buffer is shared by every stream that follows it.
import type { Frame } from '@brokkr/contract/stream.ts'
import { sealedYaml } from '../domain/sealed-yaml.ts'
import type { Seal } from '../seal.ts'
import type { Sql } from '../store/sql.ts'
import * as wanted from '../store/wanted.ts'

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
  deps: { sql: Sql; seal: Seal; content: ContentLimits },
  states: readonly StackState[],
): Promise<Map<string, StackFrame>> {
  const sealed = new Map<string, Buffer>()
  for (const { object_id, yaml_sealed } of states) if (object_id !== null && yaml_sealed) sealed.set(object_id, yaml_sealed)
  const inline = states.filter((state) => isInline(state, deps.content.inlineBytes))
  const ids = inline.map((state) => state.object_id!).filter((id) => !sealed.has(id))
  const rows = ids.length === 0 ? [] : await wanted.contentOf(deps.sql, { ids })
  for (const row of rows) sealed.set(row.id, row.yaml_sealed)
  return new Map(states.map((state) => [state.stack_id, stackFrame(deps, state, sealed)]))
}

const isInline = ({ object_id, yaml_bytes }: StackState, inlineBytes: number): boolean =>
  object_id !== null && yaml_bytes !== null && yaml_bytes <= inlineBytes

function stackFrame(deps: { seal: Seal; content: ContentLimits }, state: StackState, sealed: ReadonlyMap<string, Buffer>): StackFrame {
  const frame = putFrame(deps, state, sealed)
  return { ...wireFrame(frame), skip: frame.type === 'skip' ? frame : null }
}

function putFrame(
  { seal, content }: { seal: Seal; content: ContentLimits },
  state: StackState,
  sealed: ReadonlyMap<string, Buffer>,
): Extract<Frame, { type: 'put' | 'skip' }> {
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
  const text = openOrNull(seal, object_id, sealed.get(object_id))
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

function openOrNull(seal: Seal, id: string, content: Buffer | undefined): string | null {
  try {
    return content === undefined ? null : seal.open(sealedYaml(id), content)
  } catch {
    return null // told to the agent as a skip; the rest of the batch goes on
  }
}
