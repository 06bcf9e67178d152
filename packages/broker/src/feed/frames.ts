// Frames as bytes: a stack's state is serialised once and the buffer is shared by every stream that follows it.
import type { Frame } from '@brokkr/contract/stream.ts'
import { sealedYaml } from '../domain/sealed-yaml.ts'
import type { Seal } from '../seal.ts'
import type { Sql } from '../store/sql.ts'
import * as wanted from '../store/wanted.ts'

export type StackState = Pick<
  wanted.StackState,
  'stack_id' | 'stack_name' | 'rev' | 'drift' | 'object_id' | 'sequence_id' | 'is_deletion_marker' | 'yaml_checksum' | 'yaml_bytes'
>

export const frameBuffer = (frame: Frame): Buffer => Buffer.from(`${JSON.stringify(frame)}\n`)

/** Tells two states of one stack apart: another object at the same rev is another state. */
export const markOf = ({ rev, sequence_id, drift }: StackState): string => `${rev} ${sequence_id ?? '-'} ${drift}`

/** Splits states into pages, so that one load stays within `objects` and `bytes`; larger content travels by address. */
export function* pagesOf<S extends StackState>(
  states: readonly S[],
  limits: { objects: number; bytes: number; inlineBytes: number },
): Iterable<S[]> {
  let page: S[] = []
  let bytes = 0
  for (const state of states) {
    const size = inlineSize(state, limits.inlineBytes)
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

/** Loads the content of a page and makes one put (or skip) per stack. */
export async function putFrames(
  deps: { sql: Sql; seal: Seal; inlineBytes: number },
  states: readonly StackState[],
): Promise<Map<string, Buffer>> {
  const ids = states.filter((state) => inlineSize(state, deps.inlineBytes) > 0 || state.yaml_bytes === 0).map((state) => state.object_id!)
  const rows = ids.length === 0 ? [] : await wanted.contentOf(deps.sql, { ids })
  const sealed = new Map(rows.map((row) => [row.id, row.yaml_sealed]))
  return new Map(states.map((state) => [state.stack_id, frameBuffer(putFrame(deps.seal, state, sealed))]))
}

const inlineSize = ({ object_id, yaml_bytes }: StackState, inlineBytes: number): number =>
  object_id === null || yaml_bytes === null || yaml_bytes > inlineBytes ? 0 : yaml_bytes

function putFrame(seal: Seal, state: StackState, sealed: ReadonlyMap<string, Buffer>): Frame {
  const { stack_id, stack_name, rev, drift, object_id } = state
  const head = { type: 'put', stack_id, stack_name, rev, drift } as const
  if (object_id === null) return { ...head, object: null }
  const content = sealed.get(object_id)
  const text = content === undefined ? undefined : openOrNull(seal, object_id, content)
  if (text === null) {
    return {
      type: 'skip',
      stack_id,
      rev,
      object_id,
      yaml_checksum: state.yaml_checksum!,
      code: 'unreadable',
      message: 'the stored content cannot be opened with any key of the ring',
    }
  }
  const object = {
    id: object_id,
    sequence_id: state.sequence_id!,
    is_deletion_marker: state.is_deletion_marker!,
    yaml_checksum: state.yaml_checksum!,
    bytes: state.yaml_bytes!,
  }
  const where = text === undefined ? { content_url: `/api/v1/deployment-objects/${object_id}` } : { yaml_content: text }
  return { ...head, object: { ...object, ...where } }
}

function openOrNull(seal: Seal, id: string, content: Buffer): string | null {
  try {
    return seal.open(sealedYaml(id), content)
  } catch {
    return null // told to the agent as a skip; the rest of the batch goes on
  }
}
