// Rules of live sockets: which paths are sockets, who may open them, and which frames an agent may send. Pure.
import type { FleetAgentRecord } from '@brokkr/contract/agents/fleet.ts'
import type { ErrorCode } from '@brokkr/contract/errors.ts'
import { LogGap, NewK8sEvent, PodLogLine } from '@brokkr/contract/telemetry/telemetry.ts'
import { AgentId, DeploymentObjectId, Timestamp } from '@brokkr/contract/wire.ts'
import { z } from 'zod'

export const nilId = '00000000-0000-0000-0000-000000000000'

/** The authenticated caller of a handshake. */
export interface SocketCaller {
  readonly kind: 'admin' | 'agent' | 'generator' | 'invite' | 'link'
  readonly id: string
  readonly scope: readonly string[] | null
}

export type SocketPath = { readonly is: 'agent' } | { readonly is: 'fleet' } | { readonly is: 'stack'; readonly stackId: string }

const stackPath = /^\/api\/v1\/stacks\/([^/]+)\/live$/

/** Null if the path is no socket. The stack id is not validated. */
export function parseSocketPath(path: string): SocketPath | null {
  if (path === '/internal/ws/agent') return { is: 'agent' }
  if (path === '/api/v1/fleet/live') return { is: 'fleet' }
  const [, stackId] = stackPath.exec(path) ?? []
  return stackId === undefined ? null : { is: 'stack', stackId }
}

/** Error code for callers that must not open the socket; null if they may. `owner`: the generator of the stack; null if there is none. */
export function findDenial(path: SocketPath, principal: SocketCaller, owner: string | null): ErrorCode | null {
  const { kind, scope } = principal
  if (path.is === 'agent') return kind === 'agent' ? null : 'agent_pak_required'
  if (kind === 'admin') return scope === null || scope.includes('read') ? null : 'scope_denied'
  if (path.is === 'fleet') return 'admin_required'
  return kind === 'generator' && owner === principal.id ? null : 'stack_not_owned'
}

const pakProtocol = /^brokkr\.pak\.(\S+)$/

/** Browsers cannot set headers: live sockets accept the PAK as a sub-protocol if no Authorization header was sent. */
export function readProtocolPak(offered: string | undefined): string | null {
  for (const protocol of (offered ?? '').split(',')) {
    const [, pak] = pakProtocol.exec(protocol.trim()) ?? []
    if (pak !== undefined) return pak
  }
  return null
}

/** The only sub-protocol that is ever chosen; a PAK is never echoed. */
export const chooseProtocol = (offered: ReadonlySet<string>): string | false => (offered.has('brokkr.v1') ? 'brokkr.v1' : false)

const handshakeKey = /^[+/0-9A-Za-z]{22}==$/

/** Whether the headers are those of a WebSocket handshake. */
export function isHandshake({ method, headers }: { readonly method?: string | undefined; readonly headers: HandshakeHeaders }): boolean {
  const isSupported = [13, 8].includes(Number(headers['sec-websocket-version']))
  return (
    method === 'GET' &&
    headers.upgrade?.toLowerCase() === 'websocket' &&
    isSupported &&
    handshakeKey.test(headers['sec-websocket-key'] ?? '')
  )
}
interface HandshakeHeaders {
  readonly upgrade?: string | undefined
  readonly 'sec-websocket-key'?: string | undefined
  readonly 'sec-websocket-version'?: string | undefined
}

const HeartbeatBody = z.object({
  agent_id: AgentId,
  sent_at: Timestamp,
  k8s_reachable: z.boolean().nullable().optional(),
  k8s_api_latency_ms: z.int32().nullable().optional(),
})
const EventBody = z.object({
  agent_id: AgentId,
  deployment_object_id: DeploymentObjectId,
  event_type: z.string(),
  status: z.string(),
  message: z.string().nullable().optional(),
})
const HealthBody = z.object({
  agent_id: AgentId,
  deployment_object_id: DeploymentObjectId,
  status: z.string(),
  summary: z.string().nullable().optional(),
  checked_at: Timestamp,
})
const frameBodies = {
  heartbeat: HeartbeatBody,
  agent_event: EventBody,
  agent_health: HealthBody,
  k8s_event: NewK8sEvent,
  pod_log_line: PodLogLine,
  log_gap: LogGap,
} as const
type FrameType = keyof typeof frameBodies
export type AgentFrame = { [T in FrameType]: { readonly type: T; readonly body: z.output<(typeof frameBodies)[T]> } }[FrameType]
export type DropReason = 'not_json' | 'unknown_type' | 'broker_only' | 'invalid' | 'foreign_agent'

const brokerOnly: ReadonlySet<unknown> = new Set(['work_order', 'stack_changed', 'target_changed', 'fleet_update'])
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** A frame of the agent of this connection, or the reason why it is dropped. */
export function parseAgentFrame(agentId: string, text: string): AgentFrame | { readonly dropped: DropReason } {
  const frame = parseJson(text)
  if (typeof frame !== 'object' || frame === null) return { dropped: 'not_json' }
  const { type, body } = frame as { type?: unknown; body?: unknown }
  if (brokerOnly.has(type)) return { dropped: 'broker_only' }
  if (typeof type !== 'string' || !Object.hasOwn(frameBodies, type)) return { dropped: 'unknown_type' }
  const parsed = frameBodies[type as FrameType].safeParse(body)
  if (!parsed.success || !hasValidIds(parsed.data)) return { dropped: 'invalid' }
  return parsed.data.agent_id === agentId ? ({ type, body: parsed.data } as AgentFrame) : { dropped: 'foreign_agent' }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

/** The contract describes the format of ids to JSON Schema only. */
const hasValidIds = (body: object): boolean =>
  Object.entries(body).every(([key, value]) => !key.endsWith('_id') || (typeof value === 'string' && uuid.test(value)))

export const toFrame = (type: string, body: object): string => JSON.stringify({ type, body })

export const toFleetFrame = (record: FleetAgentRecord): string => toFrame('fleet_update', record)

/** Tells a client of the first version that something changed and that it should poll. */
export const toPollFrame = (agentId: string): string => toFrame('target_changed', { id: nilId, agent_id: agentId, stack_id: nilId })
