// Stores one event of an agent with its acknowledgement. An id makes the report safe to repeat: the second try gets the
// stored row.
import { ApiError } from '@brokkr/contract/error.ts'
import type { AgentEvent, NewAgentEvent } from '@brokkr/contract/event.ts'
import type { Actor } from '../domain/actor.ts'
import { uuid7 } from '../domain/uuid7.ts'
import * as agentEvents from '../store/agent-events.ts'
import * as agentTargets from '../store/agent-targets.ts'
import * as deploymentObjects from '../store/deployment-objects.ts'
import type { Sql } from '../store/sql.ts'

const messageCharsMax = 16_384

export async function recordAgentEvent(
  deps: { sql: Sql; wakeFeed: () => void },
  input: { agentId: string; event: NewAgentEvent; by: Actor },
): Promise<AgentEvent> {
  const { agentId, event } = input
  if (event.agent_id !== agentId) throw new ApiError('agent_id_mismatch', 'agent_id in the body differs from the path')
  refuseBadTexts(event)
  const stored = await deps.sql.begin(async (sql) => {
    const owner = await deploymentObjects.ownerOf(sql, { id: event.deployment_object_id })
    if (owner === null)
      throw new ApiError('foreign_key_violation', 'no such deployment object', { details: { constraint: 'fk_deployment_object' } })
    if (input.by.kind === 'agent') await refuseForeign(sql, agentId, owner.stack_id)
    const row = eventRow(event, owner.stack_id)
    const inserted = (await agentEvents.insert(sql, row)) ?? (await agentEvents.get(sql, { id: row.id, agent_id: agentId }))
    if (inserted === null)
      throw new ApiError('unique_violation', 'another agent reported an event under this id', {
        details: { constraint: 'agent_events_pkey' },
      })
    await agentEvents.acknowledge(sql, {
      agent_id: agentId,
      deployment_object_id: row.deployment_object_id,
      last_type: row.event_type,
      last_status: row.status,
    })
    return inserted
  })
  deps.wakeFeed()
  return stored
}

async function refuseForeign(sql: Sql, agentId: string, stackId: string): Promise<void> {
  if ((await agentTargets.hasOrRemoves(sql, { agent_id: agentId, stack_id: stackId })) !== null) return
  throw new ApiError('agent_not_associated', 'the object belongs to a stack that this agent does not have')
}

function refuseBadTexts({ event_type, status }: NewAgentEvent): void {
  const wrong =
    event_type === '' || event_type.length > 50
      ? 'event_type has 1 to 50 characters'
      : status === '' || status.length > 10
        ? 'status has 1 to 10 characters'
        : null
  if (wrong !== null)
    throw new ApiError('validation_failed', wrong, { details: { errors: [{ path: wrong.split(' ')[0], message: wrong }] } })
}

function eventRow(event: NewAgentEvent, stackId: string): agentEvents.NewEventRow {
  const { sequence_id, attempt, error_code, duration_ms, resources, changes } = event
  const detail = Object.fromEntries(
    Object.entries({ sequence_id, attempt, error_code, duration_ms, resources, changes }).filter(
      ([, value]) => value !== undefined && value !== null,
    ),
  )
  return {
    id: event.id ?? uuid7(),
    agent_id: event.agent_id,
    deployment_object_id: event.deployment_object_id,
    stack_id: stackId,
    event_type: event.event_type,
    status: event.status,
    message: cut(event.message ?? null),
    detail: Object.keys(detail).length === 0 ? null : JSON.stringify(detail),
    occurred_at: event.occurred_at ?? null,
  }
}

const cut = (message: string | null): string | null =>
  message !== null && message.length > messageCharsMax ? `${message.slice(0, messageCharsMax)}…[cut]` : message
