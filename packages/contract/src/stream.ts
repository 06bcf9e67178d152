// Frames of the feed as they travel, and the agent's answer to them. Unknown types and unknown fields are ignored by
// readers; a known type that lacks a required field is an error and ends the stream.
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { Drift, Phase } from './stack.ts'
import { AgentId, byId, DeploymentObjectId, StackId, Timestamp, Uuid } from './wire.ts'

export const WantedObject = z.object({
  id: DeploymentObjectId,
  sequence_id: z.int(),
  is_deletion_marker: z.boolean(),
  yaml_checksum: z.string(),
  bytes: z.int(),
  yaml_content: z.string().optional(),
  content_url: z.string().optional(),
})
export type WantedObject = z.output<typeof WantedObject>

const Hello = z.object({
  type: z.literal('hello'),
  protocol: z.int(),
  epoch: Uuid,
  /** Of the broker's database server; while it lasts no backup can have been put back. Brokers before it do not say. */
  boot: Uuid.optional(),
  session: z.int(),
  broker: z.string(),
  mode: z.enum(['resume', 'snapshot', 'reset']),
  reason: z.string().nullable(),
  heartbeat_ms: z.int(),
  lifetime_ms: z.int(),
  time: Timestamp,
})
const SnapshotBegin = z.object({ type: z.literal('snapshot_begin'), id: Uuid, reason: z.string(), allow_removals: z.int().nullable() })
const Put = z.object({
  type: z.literal('put'),
  stack_id: StackId,
  stack_name: z.string(),
  rev: z.int(),
  drift: Drift,
  object: WantedObject.nullable(),
})
const Skip = z.object({
  type: z.literal('skip'),
  stack_id: StackId,
  rev: z.int(),
  object_id: DeploymentObjectId,
  yaml_checksum: z.string(),
  code: z.string(),
  message: z.string(),
})
const Del = z.object({ type: z.literal('del'), stack_id: StackId, rev: z.int(), reason: z.enum(['untargeted', 'stack_deleted']) })
const SnapshotEnd = z.object({
  type: z.literal('snapshot_end'),
  id: Uuid,
  count: z.int(),
  digest: z.string(),
  removals: z.int(),
  unchanged: z.boolean(),
  cursor: z.string(),
})
const Look = z.object({ type: z.literal('look'), what: z.string(), spread_ms: z.int() })
const Bookmark = z.object({ type: z.literal('bookmark'), cursor: z.string() })
/** Of watches: what changed, to be read again by whoever may. */
const Change = z.object({ type: z.literal('change'), scope: z.string(), kind: z.string(), id: Uuid.nullable(), op: z.string() })
const Ping = z.object({ type: z.literal('ping'), t: z.number(), stale: z.boolean() })
const Bye = z.object({ type: z.literal('bye'), reason: z.string(), retry_after_ms: z.int(), cursor: z.string().nullable() })

export const Frame = z.discriminatedUnion('type', [Hello, SnapshotBegin, Put, Skip, Del, SnapshotEnd, Look, Change, Bookmark, Ping, Bye])
export type Frame = z.output<typeof Frame>
export type FrameOf<T extends Frame['type']> = Extract<Frame, { type: T }>
const known: ReadonlySet<string> = new Set(Frame.options.map((option) => option.shape.type.value))

/** One line of the stream: a frame, null for a type this release does not know, and a throw for anything broken. */
export function parseFrame(line: string): Frame | null {
  const value: unknown = JSON.parse(line)
  const type = typeof value === 'object' && value !== null && 'type' in value ? value.type : undefined
  if (typeof type !== 'string') throw new TypeError('a frame without a type')
  if (!known.has(type)) return null
  const parsed = Frame.safeParse(value)
  // Paths only: a frame holds manifests, and an error text must not.
  if (!parsed.success)
    throw new TypeError(`frame ${type}: ${parsed.error.issues.map((issue) => issue.path.join('.')).join(', ')} is missing or wrong`)
  return parsed.data
}

export const agentStream = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{id}/stream',
  summary: 'What the agent should run, as frames that never end: a snapshot or the changes since the cursor, then live',
  params: byId(AgentId),
  query: z.object({
    cursor: z.string().optional(),
    /** The newest cursor of a follower that wants a complete list all the same. */
    seen: z.string().optional(),
    reason: z.string().max(32).optional(),
    count: z.int().optional(),
    digest: z.string().max(64).optional(),
    wait: z.string().max(8).optional(),
  }),
  success: 200,
  stream: true,
  errors: ['agent_pak_mismatch', 'bad_cursor', 'overloaded', 'draining', 'feed_unavailable'],
})

export const watch = endpoint({
  method: 'GET',
  path: '/api/v1/watch',
  summary: 'Pointers to what changed, as server-sent events or lines; what they name is read by the ordinary operations',
  query: z.object({ scope: z.array(z.string().max(128)).min(1).max(64), cursor: z.string().optional() }),
  success: 200,
  stream: true,
  errors: ['forbidden', 'bad_cursor', 'overloaded', 'draining', 'feed_unavailable'],
})

export const newEpoch = endpoint({
  method: 'POST',
  path: '/api/v1/admin/feed/new-epoch',
  summary: 'Declare that the history of the database broke: every cursor is worth nothing from now on, every follower gets a snapshot',
  success: 200,
  response: z.object({ epoch: Uuid }),
  errors: ['admin_required'],
})

export const StackReport = z.object({
  stack_id: StackId,
  rev: z.int(),
  object_id: DeploymentObjectId.nullable(),
  phase: Phase,
  code: z.string().max(64).nullable().optional(),
  message: z.string().nullable().optional(),
  attempts: z.int().default(0),
  retry_at: Timestamp.nullable().optional(),
  observed_at: Timestamp,
})
export type StackReport = z.output<typeof StackReport>

export const reportStatus = endpoint({
  method: 'POST',
  path: '/api/v1/agents/{id}/status',
  summary: 'How each stack stands in the cluster, and a digest of what the agent wants to be compared',
  params: byId(AgentId),
  body: z.object({
    session: z.int(),
    n: z.int(),
    received_cursor: z.string().nullable().optional(),
    check: z.object({ cursor: z.string(), count: z.int(), digest: z.string() }).optional(),
    /** The `t` of the last ping: how long the way there and back takes, by the broker's clock alone. */
    echo: z.number().optional(),
    stacks: z.array(StackReport).max(200),
  }),
  success: 200,
  response: z.object({ accepted: z.int(), ignored: z.int(), check: z.enum(['match', 'moved', 'mismatch']).optional() }),
  errors: ['agent_pak_mismatch', 'bad_cursor'],
})
