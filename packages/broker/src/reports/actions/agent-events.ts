// Agent events: record, enqueue their webhook deliveries, read.
import { ApiError, type ErrorCode } from '@brokkr/contract/errors.ts'
import type { AgentEvent, EventResult, NewAgentEvent } from '@brokkr/contract/reports/agent-event.ts'
import type { Sql } from '@brokkr/postgres'
import * as agents from '../../agents/store/agents.ts'
import type { Actor } from '../../audit/rules.ts'
import * as deploymentObjects from '../../deployments/store/deployment-objects.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import * as agentTargets from '../../targeting/store/agent-targets.ts'
import { enqueueDeliveries, hasSubscriber } from '../../webhooks/delivery/enqueue.ts'
import { deploymentReported, toWebhookEventTypes } from '../../webhooks/delivery/rules/webhook-events.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import { findEventError, saysRemoved } from '../rules.ts'
import * as agentEvents from '../store/agent-events.ts'
import * as agentStackStatus from '../store/agent-stack-status.ts'

// Stores events of an agent with their acknowledgments, one or many in one transaction. A rejected event does not affect the others. The
// event id makes a report idempotent: a repeated report finds the stored row.

type Deps = { sql: Sql; subscriptionCache: SubscriptionCache; wakeFeed: () => void }
type IdentifiedEvent = NewAgentEvent & { readonly id: string }
type EventOutcome = { readonly is: 'stored' | 'duplicate'; readonly row: AgentEvent } | { readonly is: 'refused'; readonly error: ApiError }

/** Throws the error if the event is rejected. */
export async function recordAgentEvent(deps: Deps, input: { agentId: string; event: NewAgentEvent; actor: Actor }): Promise<AgentEvent> {
  const [outcomes] = await record(deps, { ...input, events: [{ ...input.event, id: input.event.id ?? uuid7() }] })
  if (outcomes!.is === 'refused') throw outcomes!.error
  return outcomes!.row
}

export async function recordAgentEvents(
  deps: Deps,
  input: { agentId: string; events: IdentifiedEvent[]; actor: Actor },
): Promise<EventResult[]> {
  const outcomes = await record(deps, input)
  return input.events.map(({ id }, index) => {
    const one = outcomes[index]!
    return one.is === 'refused' ? { id, status: one.is, code: one.error.code } : { id, status: one.is }
  })
}

async function record(deps: Deps, input: { agentId: string; events: IdentifiedEvent[]; actor: Actor }): Promise<EventOutcome[]> {
  const { agentId, events } = input
  const outcomes = await deps.sql.begin(async (sql) => {
    const ids = [...new Set(events.map((event) => event.deployment_object_id))]
    const subjects = await readSubjects(sql, input, await deploymentObjects.listStackIds(sql, { ids }))
    const errors = events.map((event) => subjects.findError(event))
    const validEvents = events.filter((_, index) => errors[index] === null)
    const isRemoval = (event: IdentifiedEvent) => saysRemoved(event, subjects.isMarker(event.deployment_object_id))
    // Only removals change stored counts; without one the agent row is not locked, so reports of one agent run concurrently.
    if (validEvents.some(isRemoval)) await agents.lockForReport(sql, { id: agentId })
    const result = await store(sql, agentId, validEvents, subjects.stackOf)
    // An event id that another agent used is rejected: it neither acknowledges nor removes.
    const told = validEvents.filter(({ id }) => result.fresh.has(id) || result.earlier.has(id))
    const removals = told.filter(isRemoval)
    const object_ids = removals.map((event) => event.deployment_object_id)
    if (object_ids.length > 0) {
      await agentStackStatus.lockOfObjects(sql, { agent_id: agentId, object_ids })
      await agentStackStatus.markRemoved(sql, { agent_id: agentId, object_ids })
    }
    const fresh = [...new Set(told.map(({ id }) => id))].flatMap((id) => result.fresh.get(id) ?? [])
    await enqueueReportEvents(sql, deps.subscriptionCache, { events: fresh, stackOf: subjects.stackOf })
    return sql.commitWith(
      (on) => [acknowledge(on, agentId, told)],
      () => events.map((event, index) => outcome(result, event, errors[index] ?? null)),
    )
  })
  deps.wakeFeed()
  return outcomes
}

/** The stack of each deployment object, and whether the agent may report on it. */
async function readSubjects(
  sql: Sql,
  { agentId, actor }: { agentId: string; actor: Actor },
  objectRows: readonly deploymentObjects.OfStack[],
) {
  const objects = new Map(objectRows.map((object) => [object.id, object]))
  const stack_ids = [...new Set(objectRows.map((object) => object.stack_id))]
  const targets = actor.kind === 'agent' ? await agentTargets.hadAmong(sql, { agent_id: agentId, stack_ids }) : objectRows
  const permittedStackIds = new Set(targets.map((row) => row.stack_id))
  return {
    stackOf: (objectId: string) => objects.get(objectId)!.stack_id,
    isMarker: (objectId: string) => objects.get(objectId)!.is_deletion_marker,
    findError: (event: IdentifiedEvent): ApiError | null => {
      const object = objects.get(event.deployment_object_id)
      if (event.agent_id !== agentId) return new ApiError('agent_id_mismatch', 'agent_id in the body differs from the path')
      const error = findEventError(event)
      if (error !== null) return error
      if (object === undefined)
        return new ApiError('foreign_key_violation', 'no such deployment object', { details: { constraint: 'fk_deployment_object' } })
      if (permittedStackIds.has(object.stack_id)) return null
      return new ApiError('agent_not_associated', 'the deployment object belongs to a stack that does not target this agent')
    },
  }
}

interface StoreResult {
  readonly fresh: ReadonlyMap<string, AgentEvent>
  readonly earlier: ReadonlyMap<string, AgentEvent>
  readonly told: Set<string>
}

async function store(sql: Sql, agentId: string, events: IdentifiedEvent[], stackOf: (objectId: string) => string): Promise<StoreResult> {
  const rows = events.map((event, place) => ({ ...eventRow(event), stack_id: stackOf(event.deployment_object_id), place }))
  const fresh = rows.length === 0 ? [] : await agentEvents.insertMany(sql, { agent_id: agentId, events: JSON.stringify(rows) })
  const byId = new Map<string, AgentEvent>(fresh.map((row) => [row.id, row]))
  const missing = events.map((event) => event.id).filter((id) => !byId.has(id))
  const earlier = missing.length === 0 ? [] : await agentEvents.amongOfAgent(sql, { agent_id: agentId, ids: missing })
  return { fresh: byId, earlier: new Map(earlier.map((row) => [row.id, row])), told: new Set() }
}

function outcome({ fresh, earlier, told }: StoreResult, { id }: IdentifiedEvent, error: ApiError | null): EventOutcome {
  if (error !== null) return { is: 'refused', error }
  const row = fresh.get(id) ?? earlier.get(id)
  if (row === undefined) {
    const code: ErrorCode = 'unique_violation'
    return {
      is: 'refused',
      error: new ApiError(code, 'another agent reported an event with this id: use a new id', {
        details: { constraint: 'agent_events_pkey' },
      }),
    }
  }
  const is = fresh.has(id) && !told.has(id) ? 'stored' : 'duplicate'
  told.add(id)
  return { is, row }
}

/** The last event of each deployment object acknowledges it. */
async function acknowledge(sql: Sql, agentId: string, events: IdentifiedEvent[]): Promise<void> {
  const latestEvents = [...new Map(events.map((event) => [event.deployment_object_id, event])).values()]
  if (latestEvents.length === 0) return
  await agentEvents.acknowledge(sql, {
    agent_id: agentId,
    event_ids: latestEvents.map((event) => event.id),
    object_ids: latestEvents.map((event) => event.deployment_object_id),
    types: latestEvents.map((event) => event.event_type),
    statuses: latestEvents.map((event) => event.status),
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

// Enqueues webhook deliveries for reported agent events, in the transaction of the report. Missing sequence numbers are read only if a
// subscription matches.

/** Events of one report, in its order. */
async function enqueueReportEvents(
  sql: Sql,
  subscriptionCache: SubscriptionCache,
  { events, stackOf }: { events: readonly AgentEvent[]; stackOf: (objectId: string) => string },
): Promise<void> {
  if (events.length === 0 || !(await hasSubscriber(sql, subscriptionCache, events.flatMap(toWebhookEventTypes)))) return
  const idsWithoutSequence = new Set(events.filter(({ sequence_id }) => sequence_id === null).map((event) => event.deployment_object_id))
  const sequences = idsWithoutSequence.size === 0 ? [] : await deploymentObjects.listSequences(sql, { ids: [...idsWithoutSequence] })
  const sequenceById = new Map<string, number>(sequences.map(({ id, sequence_id }) => [id, sequence_id]))
  const webhookEvents = events.flatMap((event) => {
    const id = event.deployment_object_id
    return deploymentReported(event, { stack_id: stackOf(id), sequence_id: sequenceById.get(id) ?? null })
  })
  await enqueueDeliveries(sql, subscriptionCache, webhookEvents)
}

// Reads agent events that a list statement selected. Lists select only ids and sizes, so that a page is cut before its content is read.

/** Keeps the order of `entries`. Leaves out events that were deleted after the list was read. */
export async function readAgentEvents({ sql }: { sql: Sql }, entries: readonly { id: string }[]): Promise<AgentEvent[]> {
  const ids = entries.map(({ id }) => id)
  const eventsById = new Map<string, AgentEvent>((await agentEvents.among(sql, { ids })).map((event) => [event.id, event]))
  return ids.flatMap((id) => eventsById.get(id) ?? [])
}
