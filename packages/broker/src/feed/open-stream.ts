// Takes an agent's request for a stream: what may be refused is refused before the first byte, a place in line for a snapshot
// is taken, then hello, the start, and the hand-over.
import type { ServerResponse } from 'node:http'
import { ApiError } from '@brokkr/contract/error.ts'
import { uniform } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import * as feedState from '../store/feed-state.ts'
import type { Admission } from './admission.ts'
import { readCursor } from './cursor.ts'
import { contentTypes, type Form, sseRetry } from './form.ts'
import { frameBuffer } from './frames.ts'
import type { FeedView } from './reader.ts'
import { scopeKey } from './registry.ts'
import { decideMode, type StartDeps, type StartMode, startStream, type Wish } from './start.ts'
import { AgentStream, type CloseReason, type StreamLimits } from './stream.ts'

export interface StreamWish {
  readonly cursor: string | undefined
  readonly reason: string | undefined
  readonly holds: Wish['holds']
  readonly form: Form
  /** How long a long poll waits; null is a stream. */
  readonly waitMs: number | null
}
export interface OpenDeps extends StartDeps {
  readonly clock: Clock
  readonly log: Log
  readonly admission: Admission
  readonly brokerName: string
  readonly pingMs: number
  readonly lifeMs: readonly [number, number]
  readonly limits: StreamLimits
  readonly streamsMax: number
  readonly onClosed: (reason: CloseReason) => void
}

/** Streams an agent may hold; one more takes the place of the oldest. */
const perAgentMax = 2

export async function openStream(
  deps: OpenDeps,
  view: FeedView,
  answer: () => ServerResponse,
  who: { agentId: string; expiresAtMs: number | null },
  wished: StreamWish,
): Promise<void> {
  if (deps.registry.size >= deps.streamsMax)
    throw new ApiError('overloaded', 'this broker holds as many streams as it may', { retryAfterSeconds: 2 })
  const wish: Wish = { cursor: cursorOf(view, wished.cursor), reason: wished.reason ?? 'first', holds: wished.holds }
  const decided = decideMode(view, wish)
  const ticket = decided.mode === 'snapshot' ? deps.admission.join() : null
  try {
    const { session } = await feedState.nextSession(deps.sql, {})
    const stream = greet(deps, answer(), who, { view, wished, decided, session })
    await ticket?.turn
    if (stream.state !== 'closed') await startOrEnd(deps, stream, { view, wish, decided })
  } finally {
    ticket?.done()
  }
}

function cursorOf(view: FeedView, text: string | undefined): Wish['cursor'] {
  if (text === undefined) return null
  const cursor = readCursor(view.cursorKey, text)
  if (cursor === null) throw new ApiError('bad_cursor', 'the cursor is not one of this broker: connect once without it')
  return cursor
}

interface Greeting {
  readonly view: FeedView
  readonly wished: StreamWish
  readonly decided: StartMode
  readonly session: number
}

function greet(
  deps: OpenDeps,
  response: ServerResponse,
  who: { agentId: string; expiresAtMs: number | null },
  given: Greeting,
): AgentStream {
  const { clock, registry } = deps
  const { form, waitMs } = given.wished
  const lifeMs = Math.min(uniform(...deps.lifeMs), who.expiresAtMs === null ? Number.POSITIVE_INFINITY : who.expiresAtMs - clock.now())
  const nowMs = clock.monotonicMs()
  const stream = new AgentStream(response, clock, {
    agentId: who.agentId,
    endsAtMs: nowMs + lifeMs,
    form,
    pollEndsAtMs: waitMs === null ? null : nowMs + waitMs,
    limits: deps.limits,
    onClosed: (closed, reason) => {
      registry.remove(closed)
      deps.onClosed(reason)
    },
  })
  const held = [...registry.of(scopeKey('agent', who.agentId))]
  for (const oldest of held.slice(0, Math.max(0, held.length + 1 - perAgentMax))) oldest.end('overloaded', 0)
  // Known from its first moment, so that a revocation or a drain finds it while it still starts.
  registry.subscribe(stream, scopeKey('agent', who.agentId))
  response.writeHead(200, { 'content-type': contentTypes[form], 'cache-control': 'no-store, no-transform', 'x-accel-buffering': 'no' })
  response.socket?.setNoDelay(true)
  if (form === 'sse') response.write(sseRetry)
  stream.greet(helloFrame(deps, given, lifeMs))
  return stream
}

function helloFrame(deps: OpenDeps, { view, decided, session }: Greeting, lifeMs: number): Buffer {
  return frameBuffer({
    type: 'hello',
    protocol: 1,
    epoch: view.epoch,
    session,
    broker: deps.brokerName,
    ...decided,
    heartbeat_ms: Math.round(deps.pingMs),
    lifetime_ms: Math.round(lifeMs),
    time: new Date(deps.clock.now()).toISOString(),
  })
}

async function startOrEnd(deps: OpenDeps, stream: AgentStream, given: { view: FeedView; wish: Wish; decided: StartMode }): Promise<void> {
  try {
    await startStream(deps, stream, given.view, given.wish, given.decided)
  } catch (error) {
    deps.log.warn('stream start failed', { agent_id: stream.agentId, error: error as Error })
    stream.end('stale', uniform(500, 5000))
  }
}
