// Builders of webhook events. Pure; payloads contain ids, names and states, never manifests.
import type { Agent } from '@brokkr/contract/agents/agent.ts'
import type { AgentEvent } from '@brokkr/contract/reports/agent-event.ts'
import type { Stack } from '@brokkr/contract/stacks/stack.ts'
import { matchesEvent, type WebhookEventType } from '@brokkr/contract/webhooks/event-types.ts'

export function agentRegistered({ id: agent_id, name, cluster_name, status, created_at }: Agent): WebhookEvent {
  return { type: 'agent.registered', at: created_at, data: { agent_id, cluster_name, created_at, name, status } }
}

export function agentDeregistered({ agent_id, deleted_at }: { agent_id: string; deleted_at: string }): WebhookEvent {
  return { type: 'agent.deregistered', at: deleted_at, data: { agent_id, deleted_at } }
}

interface AgentNames {
  readonly agent_id: string
  readonly name: string
  readonly cluster_name: string
}

export function agentConnected(row: AgentNames & { connected_at: string }, transport: 'rest' | 'stream' | 'ws'): WebhookEvent {
  const { agent_id, name, cluster_name, connected_at } = row
  return { type: 'agent.connected', at: connected_at, data: { agent_id, cluster_name, connected_at, name, transport } }
}

export function agentDisconnected({
  agent_id,
  name,
  cluster_name,
  last_seen_at,
  at,
}: AgentNames & { last_seen_at: string; at: string }): WebhookEvent {
  return { type: 'agent.disconnected', at, data: { agent_id, cluster_name, last_seen_at, name } }
}

export function stackCreated({ id: stack_id, name, description, created_at }: Stack): WebhookEvent {
  return { type: 'stack.created', at: created_at, data: { created_at, description, name, stack_id } }
}

export function stackDeleted({ stack_id, deleted_at }: { stack_id: string; deleted_at: string }): WebhookEvent {
  return { type: 'stack.deleted', at: deleted_at, data: { deleted_at, stack_id } }
}

export interface StackSteering {
  readonly stack_id: string
  readonly sequence_id: number | null
  readonly reason: string | null
  readonly by: { readonly kind: string; readonly id: string | null }
  readonly at: string
}

export function stackHeld({ at, ...data }: StackSteering): WebhookEvent {
  return { type: 'stack.held', at, data: { ...data } }
}

export function stackReleased({ at, ...data }: StackSteering): WebhookEvent {
  return { type: 'stack.released', at, data: { ...data } }
}

export function stackUndeleted({ at, ...data }: StackSteering): WebhookEvent {
  return { type: 'stack.undeleted', at, data: { ...data } }
}

export function deploymentCreated(row: { id: string; stack_id: string; sequence_id: number; created_at: string }): WebhookEvent {
  const { id: deployment_object_id, stack_id, sequence_id, created_at } = row
  return { type: 'deployment.created', at: created_at, data: { created_at, deployment_object_id, sequence_id, stack_id } }
}

/** Webhook event types of an agent event. Health changes have their own builder. */
export function toWebhookEventTypes({ event_type, status }: Pick<AgentEvent, 'event_type' | 'status'>): readonly WebhookEventType[] {
  if (event_type === 'HEALTH_CHECK') return []
  if (event_type === 'DRIFT') return ['deployment.drifted']
  if (event_type === 'FAILED' || status.toUpperCase() !== 'SUCCESS') return ['deployment.failed']
  if (event_type === 'UPDATED') return ['deployment.applied', 'deployment.updated']
  return [event_type === 'DELETED' ? 'deployment.deleted' : 'deployment.applied']
}

export function deploymentReported(row: AgentEvent, subject: { stack_id: string; sequence_id: number | null }): WebhookEvent[] {
  const { id, agent_id, deployment_object_id, event_type, status, message, created_at, error_code, changes } = row
  const data = {
    agent_event_id: id,
    agent_id,
    created_at,
    deployment_object_id,
    error_code,
    event_type,
    message,
    sequence_id: row.sequence_id ?? subject.sequence_id,
    stack_id: subject.stack_id,
    status,
  }
  return toWebhookEventTypes(row).map((type) => {
    if (type === 'deployment.deleted') return { type, at: created_at, data: { ...data, deleted_at: created_at } }
    return { type, at: created_at, data: type === 'deployment.drifted' ? { ...data, changes: toChangeNames(changes ?? []) } : data }
  })
}

/** Changes above this size are left out of the payload. */
const changesBytesMax = 128 * 1024

function toChangeNames(changes: NonNullable<AgentEvent['changes']>) {
  let bytes = 0
  return changes
    .map(({ kind, namespace, name, path, manager }) => ({ kind, namespace: namespace ?? null, name, path, manager: manager ?? null }))
    .filter((change) => (bytes += Buffer.byteLength(JSON.stringify(change))) <= changesBytesMax)
}

export interface HealthChange {
  readonly agent_id: string
  readonly deployment_object_id: string
  readonly stack_id: string
  readonly previous_status: string | null
  readonly status: string
  readonly summary: string | null
  readonly checked_at: string
  readonly at: string
}

export function healthChanged({ at, ...change }: HealthChange): WebhookEvent {
  const summary = change.summary === null ? null : (JSON.parse(change.summary) as { readonly progressing?: unknown })
  return { type: 'deployment.health.changed', at, data: { ...change, progressing: summary?.progressing === true, summary } }
}

// Matches subscriptions with events. A filter on a field that the event does not have never matches.

export interface Subscription {
  readonly id: string
  readonly event_types: readonly string[]
  /** null matches every event; `unreadable` filters match none. */
  readonly filters: { readonly agent_id?: string | undefined; readonly stack_id?: string | undefined } | 'unreadable' | null
}
/** `at` is database time. */
export interface WebhookEvent {
  readonly type: WebhookEventType
  readonly at: string
  readonly data: Readonly<Record<string, unknown>>
}

export const matchesType = ({ event_types }: Subscription, type: WebhookEventType): boolean =>
  event_types.some((pattern) => matchesEvent(pattern, type))

export const matchesSubscription = (subscription: Subscription, { type, data }: WebhookEvent): boolean =>
  matchesType(subscription, type) && passesFilters(subscription.filters, data)

function passesFilters(filters: Subscription['filters'], data: WebhookEvent['data']): boolean {
  if (filters === 'unreadable') return false
  return (['agent_id', 'stack_id'] as const).every((field) => filters?.[field] === undefined || filters[field] === data[field])
}
