// Frames as a broker sends them, for tests that need a whole conversation in a few lines.
import { digestText } from '@brokkr/contract/feed/digest.ts'
import type { FrameOf } from '@brokkr/contract/feed/stream.ts'
import type { DeploymentObjectId, StackId } from '@brokkr/contract/wire.ts'
import { sha256 } from '../desired-state/cached-manifest.ts'

export const epochs = ['5f0c0000-0000-4000-8000-000000000001', '5f0c0000-0000-4000-8000-000000000002'] as const
const listId = '9a410000-0000-4000-8000-000000000001'

/** 1 → 0a000000-…-000000000001, in the order of the numbers. */
export const stackId = (n: number): StackId => `0a000000-0000-4000-8000-${String(n).padStart(12, '0')}` as StackId
export const objectId = (n: number, sequence = 1): DeploymentObjectId =>
  `0b000000-0000-4000-8000-${String(sequence).padStart(4, '0')}${String(n).padStart(8, '0')}` as DeploymentObjectId

export const hello = (change: Partial<FrameOf<'hello'>> = {}): FrameOf<'hello'> => ({
  type: 'hello',
  protocol: 1,
  epoch: epochs[0],
  session: 81,
  broker: 'test',
  mode: 'snapshot',
  reason: 'first',
  heartbeat_ms: 15_000,
  lifetime_ms: 2_714_000,
  time: '2026-01-01T00:00:00Z',
  ...change,
})

export function put(n: number, rev: number, text: string | null = `a: ${rev}\n`, change: Partial<FrameOf<'put'>> = {}): FrameOf<'put'> {
  const object = text === null ? null : { ...identity(n, rev, text), yaml_content: text }
  return { type: 'put', stack_id: stackId(n), stack_name: `stack-${n}`, rev, drift: 'heal', object, ...change }
}

/** Its content travels by address. */
export function putByUrl(n: number, rev: number, text: string): FrameOf<'put'> {
  return put(n, rev, null, { object: { ...identity(n, rev, text), content_url: contentPath(n, rev) } })
}

export const contentPath = (n: number, rev: number): string => `/api/v1/deployment-objects/${objectId(n, rev)}`

export const marker = (n: number, rev: number): FrameOf<'put'> =>
  put(n, rev, null, { object: { ...identity(n, rev, ''), is_deletion_marker: true, yaml_content: '' } })

export const del = (n: number, rev: number): FrameOf<'del'> => ({ type: 'del', stack_id: stackId(n), rev, reason: 'untargeted' })

export const skip = (n: number, rev: number, text: string): FrameOf<'skip'> => ({
  type: 'skip',
  stack_id: stackId(n),
  rev,
  object_id: objectId(n, rev),
  yaml_checksum: sha256(text),
  code: 'too_large',
  message: 'too large',
})

export const begin = (change: Partial<FrameOf<'snapshot_begin'>> = {}): FrameOf<'snapshot_begin'> => ({
  type: 'snapshot_begin',
  id: listId,
  reason: 'first',
  allow_removals: null,
  ...change,
})

/** The end of a list of these puts and dels, with the count and digest that belong to them. */
export function end(
  listed: readonly (FrameOf<'put'> | FrameOf<'skip'> | FrameOf<'del'>)[],
  change: Partial<FrameOf<'snapshot_end'>> = {},
): FrameOf<'snapshot_end'> {
  const lines = listed.flatMap((frame) => (frame.type === 'del' ? [] : [toDigestLine(frame)]))
  const removals = listed.filter(({ type }) => type === 'del').length
  return {
    type: 'snapshot_end',
    id: listId,
    count: lines.length,
    digest: sha256(digestText(lines)),
    removals,
    unchanged: false,
    cursor: 'after-list',
    ...change,
  }
}

export const bookmark = (cursor: string): FrameOf<'bookmark'> => ({ type: 'bookmark', cursor })
export const ping = (): FrameOf<'ping'> => ({ type: 'ping', t: 0, stale: false })
export const bye = (change: Partial<FrameOf<'bye'>> = {}): FrameOf<'bye'> => ({
  type: 'bye',
  reason: 'drain',
  retry_after_ms: 0,
  cursor: null,
  ...change,
})

const identity = (n: number, rev: number, text: string) => ({
  id: objectId(n, rev),
  sequence_id: rev,
  is_deletion_marker: false,
  yaml_checksum: sha256(text),
  bytes: Buffer.byteLength(text),
})

function toDigestLine(frame: FrameOf<'put'> | FrameOf<'skip'>) {
  if (frame.type === 'skip')
    return { stackId: frame.stack_id, rev: frame.rev, object: { id: frame.object_id, checksum: frame.yaml_checksum } }
  const object = frame.object && { id: frame.object.id, checksum: frame.object.yaml_checksum }
  return { stackId: frame.stack_id, rev: frame.rev, object }
}
