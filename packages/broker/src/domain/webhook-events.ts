// What webhooks are told, in the words of the wire: one maker for each kind of event. Pure; ids, names and states, never a manifest.
import type { Agent } from '@brokkr/contract/agent.ts'
import type { AgentEvent } from '@brokkr/contract/event.ts'
import type { Stack } from '@brokkr/contract/stack.ts'
import type { WebhookEventType } from '@brokkr/contract/webhook-event.ts'
import type { HookEvent } from './webhook-match.ts'

export function agentRegistered({ id: agent_id, name, cluster_name, status, created_at }: Agent): HookEvent {
  return { type: 'agent.registered', at: created_at, data: { agent_id, cluster_name, created_at, name, status } }
}

export function agentDeregistered({ agent_id, deleted_at }: { agent_id: string; deleted_at: string }): HookEvent {
  return { type: 'agent.deregistered', at: deleted_at, data: { agent_id, deleted_at } }
}

interface Named {
  readonly agent_id: string
  readonly name: string
  readonly cluster_name: string
}

export function agentConnected(row: Named & { connected_at: string }, transport: 'rest' | 'stream' | 'ws'): HookEvent {
  const { agent_id, name, cluster_name, connected_at } = row
  return { type: 'agent.connected', at: connected_at, data: { agent_id, cluster_name, connected_at, name, transport } }
}

export function agentDisconnected({
  agent_id,
  name,
  cluster_name,
  last_seen_at,
  at,
}: Named & { last_seen_at: string; at: string }): HookEvent {
  return { type: 'agent.disconnected', at, data: { agent_id, cluster_name, last_seen_at, name } }
}

export function stackCreated({ id: stack_id, name, description, created_at }: Stack): HookEvent {
  return { type: 'stack.created', at: created_at, data: { created_at, description, name, stack_id } }
}

export function stackDeleted({ stack_id, deleted_at }: { stack_id: string; deleted_at: string }): HookEvent {
  return { type: 'stack.deleted', at: deleted_at, data: { deleted_at, stack_id } }
}

export function deploymentCreated(row: { id: string; stack_id: string; sequence_id: number; created_at: string }): HookEvent {
  const { id: deployment_object_id, stack_id, sequence_id, created_at } = row
  return { type: 'deployment.created', at: created_at, data: { created_at, deployment_object_id, sequence_id, stack_id } }
}

/** What an agent's report means to others. Health has a way of its own. */
export function typesOf({ event_type, status }: Pick<AgentEvent, 'event_type' | 'status'>): readonly WebhookEventType[] {
  if (event_type === 'HEALTH_CHECK') return []
  if (event_type === 'DRIFT') return ['deployment.drifted']
  if (event_type === 'FAILED' || status.toUpperCase() !== 'SUCCESS') return ['deployment.failed']
  if (event_type === 'UPDATED') return ['deployment.applied', 'deployment.updated']
  return [event_type === 'DELETED' ? 'deployment.deleted' : 'deployment.applied']
}

export function deploymentReported(row: AgentEvent, about: { stack_id: string; sequence_id: number | null }): HookEvent[] {
  const { id, agent_id, deployment_object_id, event_type, status, message, created_at, error_code, changes } = row
  const data = {
    agent_event_id: id,
    agent_id,
    created_at,
    deployment_object_id,
    error_code,
    event_type,
    message,
    sequence_id: row.sequence_id ?? about.sequence_id,
    stack_id: about.stack_id,
    status,
  }
  return typesOf(row).map((type) => {
    if (type === 'deployment.deleted') return { type, at: created_at, data: { ...data, deleted_at: created_at } }
    return { type, at: created_at, data: type === 'deployment.drifted' ? { ...data, changes: namesOf(changes ?? []) } : data }
  })
}

/** A message stays below its bound, however much has drifted: what does not fit is left out. */
const changesBytesMax = 128 * 1024

function namesOf(changes: NonNullable<AgentEvent['changes']>) {
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

export function healthChanged({ at, ...change }: HealthChange): HookEvent {
  const summary = change.summary === null ? null : (JSON.parse(change.summary) as { readonly progressing?: unknown })
  return { type: 'deployment.health.changed', at, data: { ...change, progressing: summary?.progressing === true, summary } }
}
