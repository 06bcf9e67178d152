// Stores events of an agent with their acknowledgements, one or many in one transaction. Each stands for itself: a refused one
// does not touch its neighbours. An id makes a report safe to repeat: the second try finds the stored row.
import { ApiError, type ErrorCode } from '@brokkr/contract/error.ts'
import type { AgentEvent, EventResult, NewAgentEvent } from '@brokkr/contract/event.ts'
import type { Actor } from '../domain/actor.ts'
import { eventFault, saysRemoved } from '../domain/agent-event.ts'
import { uuid7 } from '../domain/uuid7.ts'
import * as agentEvents from '../store/agent-events.ts'
import * as agentStackStatus from '../store/agent-stack-status.ts'
import * as agentTargets from '../store/agent-targets.ts'
import * as agents from '../store/agents.ts'
import * as deploymentObjects from '../store/deployment-objects.ts'
import type { Sql } from '../store/sql.ts'
import type { Subscriptions } from '../webhooks/subscriptions.ts'
import { tellOfReports } from './tell-of-reports.ts'

type Deps = { sql: Sql; hooks: Subscriptions; wakeFeed: () => void }
type IdentifiedEvent = NewAgentEvent & { readonly id: string }
type Recorded = { readonly is: 'stored' | 'duplicate'; readonly row: AgentEvent } | { readonly is: 'refused'; readonly error: ApiError }

/** Throws what refused it. */
export async function recordAgentEvent(deps: Deps, input: { agentId: string; event: NewAgentEvent; by: Actor }): Promise<AgentEvent> {
  const [recorded] = await record(deps, { ...input, events: [{ ...input.event, id: input.event.id ?? uuid7() }] })
  if (recorded!.is === 'refused') throw recorded!.error
  return recorded!.row
}

export async function recordAgentEvents(
  deps: Deps,
  input: { agentId: string; events: IdentifiedEvent[]; by: Actor },
): Promise<EventResult[]> {
  const recorded = await record(deps, input)
  return input.events.map(({ id }, index) => {
    const one = recorded[index]!
    return one.is === 'refused' ? { id, status: one.is, code: one.error.code } : { id, status: one.is }
  })
}

async function record(deps: Deps, input: { agentId: string; events: IdentifiedEvent[]; by: Actor }): Promise<Recorded[]> {
  const { agentId, events } = input
  const recorded = await deps.sql.begin(async (sql) => {
    // The lock first, as every report takes it: an agent that falls silent is then before all of it or after.
    const ids = [...new Set(events.map((event) => event.deployment_object_id))]
    const [, found] = await sql.together((on) => [agents.lockForReport(on, { id: agentId }), deploymentObjects.stacksOf(on, { ids })])
    const about = await judged(sql, input, found)
    const faults = events.map((event) => about.faultOf(event))
    const sound = events.filter((_, index) => faults[index] === null)
    const stored = await store(sql, agentId, sound, about.stackOf)
    // One under another agent's id is refused like the others: it acknowledges and removes nothing.
    const told = sound.filter(({ id }) => stored.fresh.has(id) || stored.earlier.has(id))
    const removals = told.filter((event) => saysRemoved(event, about.isMarker(event.deployment_object_id)))
    const object_ids = removals.map((event) => event.deployment_object_id)
    if (object_ids.length > 0) {
      await agentStackStatus.lockOfObjects(sql, { agent_id: agentId, object_ids })
      await agentStackStatus.markRemoved(sql, { agent_id: agentId, object_ids })
    }
    const fresh = [...new Set(told.map(({ id }) => id))].flatMap((id) => stored.fresh.get(id) ?? [])
    await tellOfReports(sql, deps.hooks, { events: fresh, stackOf: about.stackOf })
    return sql.last(
      (on) => [acknowledge(on, agentId, told)],
      () => events.map((event, index) => outcome(stored, event, faults[index] ?? null)),
    )
  })
  deps.wakeFeed()
  return recorded
}

/** What the events are about: which stack each object belongs to, and whether the agent may speak of it. */
async function judged(sql: Sql, { agentId, by }: { agentId: string; by: Actor }, found: readonly deploymentObjects.OfStack[]) {
  const objects = new Map(found.map((object) => [object.id, object]))
  const stack_ids = [...new Set(found.map((object) => object.stack_id))]
  const had = by.kind === 'agent' ? await agentTargets.hadAmong(sql, { agent_id: agentId, stack_ids }) : found
  const permitted = new Set(had.map((row) => row.stack_id))
  return {
    stackOf: (objectId: string) => objects.get(objectId)!.stack_id,
    isMarker: (objectId: string) => objects.get(objectId)!.is_deletion_marker,
    faultOf: (event: IdentifiedEvent): ApiError | null => {
      const object = objects.get(event.deployment_object_id)
      if (event.agent_id !== agentId) return new ApiError('agent_id_mismatch', 'agent_id in the body differs from the path')
      const fault = eventFault(event)
      if (fault !== null) return fault
      if (object === undefined)
        return new ApiError('foreign_key_violation', 'no such deployment object', { details: { constraint: 'fk_deployment_object' } })
      if (permitted.has(object.stack_id)) return null
      return new ApiError('agent_not_associated', 'the object belongs to a stack that this agent does not have')
    },
  }
}

interface Stored {
  readonly fresh: ReadonlyMap<string, AgentEvent>
  readonly earlier: ReadonlyMap<string, AgentEvent>
  readonly told: Set<string>
}

async function store(sql: Sql, agentId: string, events: IdentifiedEvent[], stackOf: (objectId: string) => string): Promise<Stored> {
  const rows = events.map((event, place) => ({ ...eventRow(event), stack_id: stackOf(event.deployment_object_id), place }))
  const fresh = rows.length === 0 ? [] : await agentEvents.insertMany(sql, { agent_id: agentId, events: JSON.stringify(rows) })
  const byId = new Map<string, AgentEvent>(fresh.map((row) => [row.id, row]))
  const missing = events.map((event) => event.id).filter((id) => !byId.has(id))
  const earlier = missing.length === 0 ? [] : await agentEvents.amongOfAgent(sql, { agent_id: agentId, ids: missing })
  return { fresh: byId, earlier: new Map(earlier.map((row) => [row.id, row])), told: new Set() }
}

function outcome({ fresh, earlier, told }: Stored, { id }: IdentifiedEvent, fault: ApiError | null): Recorded {
  if (fault !== null) return { is: 'refused', error: fault }
  const row = fresh.get(id) ?? earlier.get(id)
  if (row === undefined) {
    const code: ErrorCode = 'unique_violation'
    return {
      is: 'refused',
      error: new ApiError(code, 'another agent reported an event under this id', { details: { constraint: 'agent_events_pkey' } }),
    }
  }
  const is = fresh.has(id) && !told.has(id) ? 'stored' : 'duplicate'
  told.add(id)
  return { is, row }
}

/** The last event of an object is the one that counts. */
async function acknowledge(sql: Sql, agentId: string, events: IdentifiedEvent[]): Promise<void> {
  const last = [...new Map(events.map((event) => [event.deployment_object_id, event])).values()]
  if (last.length === 0) return
  await agentEvents.acknowledge(sql, {
    agent_id: agentId,
    object_ids: last.map((event) => event.deployment_object_id),
    types: last.map((event) => event.event_type),
    statuses: last.map((event) => event.status),
  })
}

const messageCharsMax = 16_384

function eventRow(event: IdentifiedEvent) {
  const { id, deployment_object_id, event_type, status, message, occurred_at } = event
  const { sequence_id, attempt, error_code, duration_ms, resources, changes } = event
  const detail = Object.fromEntries(
    Object.entries({ sequence_id, attempt, error_code, duration_ms, resources, changes }).filter(
      ([, value]) => value !== undefined && value !== null,
    ),
  )
  const hasDetail = Object.keys(detail).length > 0
  return {
    id,
    deployment_object_id,
    event_type,
    status,
    message: cut(message ?? null),
    occurred_at: occurred_at ?? null,
    detail: hasDetail ? detail : null,
  }
}

const cut = (message: string | null): string | null =>
  message !== null && message.length > messageCharsMax ? `${message.slice(0, messageCharsMax)}…[cut]` : message
