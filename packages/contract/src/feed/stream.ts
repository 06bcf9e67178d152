// Frames of the change feed, and status reports of agents. Readers ignore unknown types and fields. A known type without a required
// field is an error and ends the stream.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { Drift, Phase } from '../stacks/stack.ts'
import { AgentId, byId, DeploymentObjectId, StackId, Timestamp, Uuid } from '../wire.ts'

export const DesiredObject = z.object({
  id: DeploymentObjectId,
  sequence_id: z.int(),
  is_deletion_marker: z.boolean(),
  yaml_checksum: z.string(),
  bytes: z.int(),
  yaml_content: z.string().optional(),
  content_url: z.string().optional(),
})
export type DesiredObject = z.output<typeof DesiredObject>

const Hello = z.object({
  type: z.literal('hello'),
  protocol: z.int(),
  epoch: Uuid,
  /** Start of the broker's database server; while it is unchanged, no backup can have been restored. Older brokers omit it. */
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
  object: DesiredObject.nullable(),
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
/** Of watches: a changed resource, which the client reads again. */
const Change = z.object({ type: z.literal('change'), scope: z.string(), kind: z.string(), id: Uuid.nullable(), op: z.string() })
const Ping = z.object({ type: z.literal('ping'), t: z.number(), stale: z.boolean() })
const Bye = z.object({ type: z.literal('bye'), reason: z.string(), retry_after_ms: z.int(), cursor: z.string().nullable() })

export const Frame = z.discriminatedUnion('type', [Hello, SnapshotBegin, Put, Skip, Del, SnapshotEnd, Look, Change, Bookmark, Ping, Bye])
export type Frame = z.output<typeof Frame>
export type FrameOf<T extends Frame['type']> = Extract<Frame, { type: T }>
const frameTypes: ReadonlySet<string> = new Set(Frame.options.map((option) => option.shape.type.value))

/** Parses one line of a stream: a frame, or null for an unknown type. Throws on a malformed line. */
export function parseFrame(line: string): Frame | null {
  const value: unknown = JSON.parse(line)
  const type = typeof value === 'object' && value !== null && 'type' in value ? value.type : undefined
  if (typeof type !== 'string') throw new TypeError('a frame without a type')
  if (!frameTypes.has(type)) return null
  const parsed = Frame.safeParse(value)
  // Reports only paths: a frame contains manifests, which must not reach an error message.
  if (!parsed.success)
    throw new TypeError(`frame ${type}: ${parsed.error.issues.map((issue) => issue.path.join('.')).join(', ')} is missing or wrong`)
  return parsed.data
}

export const agentStream = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{id}/stream',
  summary: 'Stream the desired state of an agent: a snapshot or the changes since the cursor, then live changes',
  params: byId(AgentId),
  query: z.object({
    cursor: z.string().optional(),
    /** Newest cursor of a client that requests a snapshot anyway. */
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
  summary: 'Watch changed resources as server-sent events or lines; frames contain only references',
  query: z.object({ scope: z.array(z.string().max(128)).min(1).max(64), cursor: z.string().optional() }),
  success: 200,
  stream: true,
  errors: ['forbidden', 'bad_cursor', 'overloaded', 'draining', 'feed_unavailable'],
})

export const newEpoch = endpoint({
  method: 'POST',
  path: '/api/v1/admin/feed/new-epoch',
  summary: 'Start a new epoch after the database history changed: every cursor becomes invalid and every stream receives a snapshot',
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
  summary: 'Report the status of stacks on an agent, with a digest of its desired state for comparison',
  params: byId(AgentId),
  body: z.object({
    session: z.int(),
    n: z.int(),
    received_cursor: z.string().nullable().optional(),
    check: z.object({ cursor: z.string(), count: z.int(), digest: z.string() }).optional(),
    /** `t` of the last ping: lets the broker compute the round-trip time by its own clock. */
    echo: z.number().optional(),
    stacks: z.array(StackReport).max(200),
  }),
  success: 200,
  response: z.object({ accepted: z.int(), ignored: z.int(), check: z.enum(['match', 'moved', 'mismatch']).optional() }),
  errors: ['agent_pak_mismatch', 'bad_cursor'],
})
