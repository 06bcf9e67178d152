// Frames of one agent's socket. Telemetry goes to the writer. Control frames are stored one by one and retried while the database cannot
// store them: if they arrive faster than they are stored, the socket is read more slowly.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { HealthReport } from '@brokkr/contract/health/deployment-health.ts'
import type { Sql } from '@brokkr/postgres'
import { backoffDelayMs } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { WebSocket } from 'ws'
import { recordHeartbeat } from '../agents/actions/record-heartbeat.ts'
import type { Actor } from '../audit/rules.ts'
import { recordHealth } from '../health/actions.ts'
import { toDatabaseError } from '../http/response/database-error.ts'
import { recordAgentEvent } from '../reports/actions/agent-events.ts'
import { uuid7 } from '../rules/uuid7.ts'
import { acceptItem } from '../telemetry/rules.ts'
import type { TelemetryWriter } from '../telemetry/telemetry-writer.ts'
import type { SubscriptionCache } from '../webhooks/subscriptions/subscription-cache.ts'
import { type AgentFrame, parseAgentFrame } from './rules.ts'
import type { SocketConnection } from './socket-connection.ts'
import type { SocketMetrics } from './socket-metrics.ts'

export interface ReceiveDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly log: Log
  readonly subscriptionCache: SubscriptionCache
  readonly wakeFeed: () => void
  readonly metrics: SocketMetrics
  readonly writer: Pick<TelemetryWriter, 'add'>
  /** Control frames that wait before the socket is no longer read. */
  readonly controlFramesMax: number
  /** Ends retries. */
  readonly signal: AbortSignal
}
interface Sender {
  readonly actor: Actor
  readonly connection: SocketConnection
  /** Called with each run that stores the frames that wait. */
  readonly track: (work: Promise<void>) => void
}
/** With the id of the event, so that a repeated attempt finds the row that an earlier one stored. */
interface ControlFrame {
  readonly frame: AgentFrame
  readonly eventId: string
}

export function receiveFrames(deps: ReceiveDeps, ws: WebSocket, { actor, connection, track }: Sender): void {
  const agentId = actor.id ?? ''
  const waiting: ControlFrame[] = []
  let isHandling = false
  const handleAll = async () => {
    isHandling = true
    for (let control = waiting.shift(); control !== undefined; control = waiting.shift()) {
      await handleControl(deps, control, { actor, connection })
      if (waiting.length === 0) connection.resume()
    }
    isHandling = false
  }
  ws.on('message', (data, isBinary) => {
    connection.messagesIn += 1
    const frame = isBinary ? ({ dropped: 'binary' } as const) : parseAgentFrame(agentId, rawText(data))
    if ('dropped' in frame) return deps.metrics.recordDrop(frame.dropped)
    deps.metrics.recordMessage('in', frame.type)
    if (frame.type === 'k8s_event' || frame.type === 'pod_log_line' || frame.type === 'log_gap') {
      const item = acceptItem(agentId, { is: frame.type, body: frame.body } as Parameters<typeof acceptItem>[1])
      if (item === null) deps.metrics.recordDrop('invalid')
      else deps.writer.add(item)
      return
    }
    waiting.push({ frame, eventId: uuid7() })
    if (waiting.length >= deps.controlFramesMax) connection.pause()
    if (!isHandling) track(handleAll())
  })
}

const rawText = (data: Buffer | ArrayBuffer | Buffer[]): string =>
  Array.isArray(data) ? Buffer.concat(data).toString('utf8') : Buffer.from(data as Buffer).toString('utf8')

const retryPolicy = { baseMs: 100, maxMs: 2_000, jitter: 'equal' } as const
/** A frame that cannot be stored for this long is dropped, so that it does not hold up those behind it. */
const retryLimitMs = 120_000
/** The same once the socket is closed: frames of a closed socket have no bound but time. */
const closedRetryLimitMs = 30_000
const retryableCodes: ReadonlySet<string | undefined> = new Set(['database_unavailable', 'overloaded', 'timeout'])

/** Never rejects. A frame waits while the database cannot store it; a refused frame is dropped and counted. */
async function handleControl(
  deps: ReceiveDeps,
  control: ControlFrame,
  { actor, connection }: Pick<Sender, 'actor' | 'connection'>,
): Promise<void> {
  const { type } = control.frame
  const startMs = deps.clock.monotonicMs()
  for (let attempt = 0; ; attempt++) {
    try {
      return await applyControl(deps, control, actor)
    } catch (error) {
      const { code } = toDatabaseError(error) ?? (error instanceof ApiError ? error : {})
      const leftMs = startMs + (connection.isClosed ? closedRetryLimitMs : retryLimitMs) - deps.clock.monotonicMs()
      if (retryableCodes.has(code) && leftMs > 0 && !deps.signal.aborted) {
        deps.log.debug('frame of an agent not stored yet, will retry', { type, code })
        await deps.clock.sleep(backoffDelayMs(retryPolicy, attempt), deps.signal).catch(() => undefined)
        continue
      }
      deps.metrics.recordDrop(error instanceof ApiError ? 'refused' : 'failed')
      if (!(error instanceof ApiError)) deps.log.warn('frame of an agent not handled', { type, error: error as Error })
      return
    }
  }
}

async function applyControl(deps: ReceiveDeps, { frame, eventId }: ControlFrame, actor: Actor): Promise<void> {
  const agentId = actor.id ?? ''
  if (frame.type === 'heartbeat') {
    const { k8s_reachable = null, k8s_api_latency_ms = null } = frame.body
    await recordHeartbeat(deps, { agentId, heartbeat: { k8s_reachable, k8s_api_latency_ms } })
  } else if (frame.type === 'agent_event') {
    await recordAgentEvent(deps, { agentId, event: { ...frame.body, id: eventId }, actor })
  } else if (frame.type === 'agent_health') {
    const { deployment_object_id: id, status, summary, checked_at } = frame.body
    const report = { id, status, checked_at, summary: parseSummary(summary ?? null) }
    await recordHealth(deps, { agentId, reports: [report], actor })
  }
}

/** On sockets the summary is JSON in a string. */
function parseSummary(text: string | null): HealthReport['summary'] {
  if (text === null) return null
  try {
    return JSON.parse(text) as HealthReport['summary']
  } catch {
    throw new ApiError('invalid_health_record', 'the summary is not JSON')
  }
}
