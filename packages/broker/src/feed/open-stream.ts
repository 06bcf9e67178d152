// Takes an agent's request for a stream: what may be refused is refused before the first byte, a place in line for a snapshot
// is taken, then hello, the start, and the hand-over.
import type { ServerResponse } from 'node:http'
import { ApiError } from '@brokkr/contract/error.ts'
import { uniform } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import * as feedState from '../store/feed-state.ts'
import type { Admission } from './admission.ts'
import { AgentStream } from './agent-stream.ts'
import { readCursor } from './cursor.ts'
import type { Form } from './form.ts'
import { type WireFrame, wireFrame } from './frames.ts'
import type { FeedView } from './reader.ts'
import { scopeKey } from './registry.ts'
import { decideMode, OtherHistory, type StartDeps, type StartMode, startStream, type Wish } from './start.ts'
import type { StreamLimits } from './stream.ts'
import type { StreamMetrics } from './stream-metrics.ts'

export interface StreamWish {
  readonly cursor: string | undefined
  readonly seen?: string | undefined
  readonly reason: string | undefined
  readonly holds: Wish['holds']
  readonly form: Form
  /** How long a long poll waits; null is a stream. */
  readonly waitMs: number | null
}
export interface OpenDeps extends StartDeps {
  readonly clock: Clock
  readonly metrics: StreamMetrics
  readonly admission: Admission
  readonly brokerName: string
  readonly pingMs: number
  readonly lifeMs: readonly [number, number]
  readonly limits: StreamLimits
}
export interface AgentCaller {
  readonly agentId: string
  /** When its key expires, by the monotonic clock. */
  readonly endsAtMs: number | null
}

/** Streams an agent may hold; one more takes the place of the oldest. */
const perAgentMax = 2

export async function openStream(
  deps: OpenDeps,
  view: FeedView,
  answer: () => ServerResponse,
  who: AgentCaller,
  wished: StreamWish,
): Promise<void> {
  const [cursor, seen] = [cursorOf(view, wished.cursor), cursorOf(view, wished.seen)]
  const wish: Wish = { cursor, seen, reason: wished.reason ?? 'first', holds: wished.holds }
  const decided = decideMode(view, wish)
  const ticket = decided.mode === 'snapshot' ? deps.admission.join() : null
  try {
    const { session, key_mark: keyMark } = await feedState.nextSession(deps.sql, { agent_id: who.agentId })
    const stream = greet(deps, answer(), { who, keyMark, view, wished, decided, session })
    await ticket?.turn
    if (stream.state !== 'closed') await startOrEnd(deps, stream, { view, wish, decided })
  } finally {
    ticket?.done()
  }
}

export function cursorOf(view: FeedView, text: string | undefined): Wish['cursor'] {
  if (text === undefined) return null
  const cursor = readCursor(view.cursorKey, text)
  if (cursor === null) throw new ApiError('bad_cursor', 'the cursor is not one of this broker: connect once without it')
  return cursor
}

/** How long a stream lives, and what it says at its end: a key that expires takes it along. */
export function lifeOf(
  { clock, lifeMs }: Pick<OpenDeps, 'clock' | 'lifeMs'>,
  keyEndsAtMs: number | null,
): { lastsMs: number; endsAs: 'lifetime' | 'revoked' } {
  const life = uniform(...lifeMs)
  const left = keyEndsAtMs === null ? Number.POSITIVE_INFINITY : keyEndsAtMs - clock.monotonicMs()
  return left <= life ? { lastsMs: left, endsAs: 'revoked' } : { lastsMs: life, endsAs: 'lifetime' }
}

interface Greeting {
  readonly who: AgentCaller
  readonly keyMark: string | null
  readonly view: FeedView
  readonly wished: StreamWish
  readonly decided: StartMode
  readonly session: number
}

function greet(deps: OpenDeps, response: ServerResponse, given: Greeting): AgentStream {
  const { clock, registry, metrics } = deps
  const { agentId, endsAtMs } = given.who
  const { lastsMs, endsAs } = lifeOf(deps, endsAtMs)
  const nowMs = clock.monotonicMs()
  const agent = { agentId, keyMark: given.keyMark, greetedAt: deps.publisher.nextBatch }
  const stream: AgentStream = new AgentStream(response, clock, agent, {
    form: given.wished.form,
    endsAtMs: nowMs + lastsMs,
    endsAs,
    pollEndsAtMs: given.wished.waitMs === null ? null : nowMs + given.wished.waitMs,
    limits: deps.limits,
    onFrame: metrics.frame,
    onClosed: (reason) => {
      registry.remove(stream)
      metrics.closed(reason)
    },
  })
  const scope = scopeKey('agent', agentId)
  const held = [...registry.of(scope)]
  for (const oldest of held.slice(0, Math.max(0, held.length + 1 - perAgentMax))) oldest.end('overloaded', 0)
  // Known from its first moment, so that a revocation or a drain finds it while it still starts.
  registry.subscribe(stream, scope)
  metrics.started(given.decided.mode, given.decided.reason)
  stream.greet(helloFrame(deps, given, lastsMs))
  return stream
}

function helloFrame(deps: OpenDeps, { view, decided, session }: Greeting, lastsMs: number): WireFrame {
  return wireFrame({
    type: 'hello',
    protocol: 1,
    epoch: view.epoch,
    boot: view.boots.boot,
    session,
    broker: deps.brokerName,
    ...decided,
    heartbeat_ms: Math.round(deps.pingMs),
    lifetime_ms: Math.round(lastsMs),
    time: new Date(deps.clock.now()).toISOString(),
  })
}

async function startOrEnd(deps: OpenDeps, stream: AgentStream, given: { view: FeedView; wish: Wish; decided: StartMode }): Promise<void> {
  try {
    await startStream(deps, stream, given.view, given.wish, given.decided)
  } catch (error) {
    if (!(error instanceof OtherHistory)) deps.log.warn('stream start failed', { agent_id: stream.agentId, error: error as Error })
    stream.end('stale', uniform(500, 5000))
  }
}
