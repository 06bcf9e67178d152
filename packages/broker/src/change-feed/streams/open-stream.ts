// Opens the stream of an agent: refuses the request before the first byte if it must, takes a snapshot ticket, writes hello, and starts
// the stream.
import type { ServerResponse } from 'node:http'
import { ApiError } from '@brokkr/contract/errors.ts'
import { randomBetween } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { parseCursor } from '../reader/cursor.ts'
import type { FeedView } from '../reader/reader.ts'
import { scopeKey } from '../reader/registry.ts'
import * as feedState from '../store/feed-state.ts'
import { AgentStream } from './agent-stream.ts'
import type { StreamLimits } from './frame-stream.ts'
import type { StreamFormat } from './frame-writer.ts'
import { toWireFrame, type WireFrame } from './frames.ts'
import type { SnapshotAdmission } from './snapshot-admission.ts'
import { decideStartMode, EpochMismatch, type StartDeps, type StartMode, type StartRequest, startStream } from './start-stream.ts'
import type { StreamMetrics } from './stream-metrics.ts'

export interface StreamRequest {
  readonly cursor: string | undefined
  readonly seen?: string | undefined
  readonly reason: string | undefined
  readonly holds: StartRequest['holds']
  readonly format: StreamFormat
  /** Waiting time of a long poll; null for a stream. */
  readonly waitMs: number | null
}
export interface OpenStreamDeps extends StartDeps {
  readonly clock: Clock
  readonly metrics: StreamMetrics
  readonly admission: SnapshotAdmission
  readonly brokerName: string
  readonly pingMs: number
  readonly lifeMs: readonly [number, number]
  readonly limits: StreamLimits
}
export interface CallingAgent {
  readonly agentId: string
  /** Expiry of its PAK by the monotonic clock. */
  readonly endsAtMs: number | null
}

/** Another stream of the same agent replaces its oldest one. */
const streamsPerAgentMax = 2

export async function openStream(
  deps: OpenStreamDeps,
  view: FeedView,
  takeResponse: () => ServerResponse,
  agent: CallingAgent,
  request: StreamRequest,
): Promise<void> {
  const [cursor, seen] = [requireCursor(view, request.cursor), requireCursor(view, request.seen)]
  const start: StartRequest = { cursor, seen, reason: request.reason ?? 'first', holds: request.holds }
  const mode = decideStartMode(view, start)
  const ticket = mode.mode === 'snapshot' ? deps.admission.join() : null
  try {
    const { session, key_mark: pakFingerprint } = await feedState.nextSession(deps.sql, { agent_id: agent.agentId })
    const stream = sendHello(deps, takeResponse(), { agent, pakFingerprint, view, request, mode, session })
    await ticket?.turn
    if (stream.state !== 'closed') await startOrEnd(deps, stream, { view, start, mode })
  } finally {
    ticket?.release()
  }
}

export function requireCursor(view: FeedView, text: string | undefined): StartRequest['cursor'] {
  if (text === undefined) return null
  const cursor = parseCursor(view.cursorKey, text)
  if (cursor === null) throw new ApiError('bad_cursor', 'not a cursor of this broker: connect once without a cursor')
  return cursor
}

/** Random lifetime of a stream; it ends earlier if its PAK expires. */
export function planLifetime(
  { clock, lifeMs }: Pick<OpenStreamDeps, 'clock' | 'lifeMs'>,
  pakEndsAtMs: number | null,
): { lastsMs: number; endsAs: 'lifetime' | 'revoked' } {
  const lifetimeMs = randomBetween(...lifeMs)
  const pakLifeMs = pakEndsAtMs === null ? Number.POSITIVE_INFINITY : pakEndsAtMs - clock.monotonicMs()
  return pakLifeMs <= lifetimeMs ? { lastsMs: pakLifeMs, endsAs: 'revoked' } : { lastsMs: lifetimeMs, endsAs: 'lifetime' }
}

interface HelloInput {
  readonly agent: CallingAgent
  readonly pakFingerprint: string | null
  readonly view: FeedView
  readonly request: StreamRequest
  readonly mode: StartMode
  readonly session: number
}

function sendHello(deps: OpenStreamDeps, response: ServerResponse, input: HelloInput): AgentStream {
  const { clock, registry, metrics } = deps
  const { agentId, endsAtMs } = input.agent
  const { lastsMs, endsAs } = planLifetime(deps, endsAtMs)
  const nowMs = clock.monotonicMs()
  const agent = { agentId, pakFingerprint: input.pakFingerprint, helloBatch: deps.publisher.nextBatch }
  const stream: AgentStream = new AgentStream(response, clock, agent, {
    format: input.request.format,
    endsAtMs: nowMs + lastsMs,
    endsAs,
    pollEndsAtMs: input.request.waitMs === null ? null : nowMs + input.request.waitMs,
    limits: deps.limits,
    onFrame: metrics.recordFrame,
    onClosed: (reason) => {
      registry.remove(stream)
      metrics.recordClose(reason)
    },
  })
  const scope = scopeKey('agent', agentId)
  const others = [...registry.getSubscribers(scope)]
  for (const oldest of others.slice(0, Math.max(0, others.length + 1 - streamsPerAgentMax))) oldest.end('overloaded', 0)
  // Subscribed before the start, so that a revocation or a drain finds the stream while it starts.
  registry.subscribe(stream, scope)
  metrics.recordStart(input.mode.mode, input.mode.reason)
  stream.sendHello(buildHelloFrame(deps, input, lastsMs))
  return stream
}

function buildHelloFrame(deps: OpenStreamDeps, { view, mode, session }: HelloInput, lastsMs: number): WireFrame {
  return toWireFrame({
    type: 'hello',
    protocol: 1,
    epoch: view.epoch,
    boot: view.boots.boot,
    session,
    broker: deps.brokerName,
    ...mode,
    heartbeat_ms: Math.round(deps.pingMs),
    lifetime_ms: Math.round(lastsMs),
    time: new Date(deps.clock.now()).toISOString(),
  })
}

async function startOrEnd(
  deps: OpenStreamDeps,
  stream: AgentStream,
  input: { view: FeedView; start: StartRequest; mode: StartMode },
): Promise<void> {
  try {
    await startStream(deps, stream, input.view, input.start, input.mode)
  } catch (error) {
    if (!(error instanceof EpochMismatch)) deps.log.warn('stream start failed', { agent_id: stream.agentId, error: error as Error })
    stream.end('stale', randomBetween(500, 5000))
  }
}
