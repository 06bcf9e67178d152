// The history agents report: one event, many, and its lists.

import { ApiError } from '@brokkr/contract/error.ts'
import type { AgentEvent } from '@brokkr/contract/event.ts'
import { recordAgentEvent, recordAgentEvents } from '../../actions/record-agent-events.ts'
import type { BrokerDeps } from '../../deps.ts'
import * as agentEvents from '../../store/agent-events.ts'
import { withTag } from '../etag.ts'
import type { Handler } from '../handler.ts'
import { newestFirst, oldestFirst } from '../list-order.ts'
import { page } from '../paging.ts'
import { actorOf } from './actor.ts'
import { seesDeleted } from './sees-deleted.ts'

const cap = 1000

export const handleCreate: Handler<'createEvent', BrokerDeps> = (deps, request) =>
  recordAgentEvent(deps, { agentId: request.params.id, event: request.body, by: actorOf(request) })

export const handleCreateMany: Handler<'createEvents', BrokerDeps> = async (deps, request) => {
  const results = await recordAgentEvents(deps, { agentId: request.params.id, events: request.body.events, by: actorOf(request) })
  if (results.some(({ code }) => code === 'agent_not_associated')) request.reply.deniedPart('agent_not_associated')
  return { results }
}

export const handleListOfAgent: Handler<'listEvents', BrokerDeps> = async ({ sql }, request) => {
  const filter = { agent_id: request.params.id, with_deleted: seesDeleted(request) }
  const places = await page(request, newestFirst, {
    name: 'listEvents',
    cap,
    read: ({ after: [after_at, after_id], limit }) => agentEvents.listOfAgent(sql, { ...filter, after_at, after_id, limit }),
    bytesOf: ({ bytes }) => 512 + bytes,
  })
  return eventsAt({ sql }, places)
}

export const handleList: Handler<'listAgentEvents', BrokerDeps> = async ({ sql }, request) => {
  const { pak_id, stack_id, agent_id, event_type, since } = request.query
  const asked = { generator_id: pak_id ?? null, stack_id: stack_id ?? null, agent_id: agent_id ?? null }
  const filter = { ...asked, event_type: event_type ?? null, since: since ?? null, with_deleted: seesDeleted(request) }
  const list =
    agent_id !== undefined ? agentEvents.listOfAgentByTime : stack_id !== undefined ? agentEvents.listOfStackByTime : agentEvents.listByTime
  const places = await page(request, oldestFirst, {
    name: 'listAgentEvents',
    cap,
    read: ({ after: [after_at, after_id], limit }) => list(sql, { ...filter, after_at, after_id, limit }),
    bytesOf: ({ bytes }) => 512 + bytes,
  })
  return eventsAt({ sql }, places)
}

/** In the order of their places. An event may have been trimmed since; then it is left out. */
export async function eventsAt({ sql }: Pick<BrokerDeps, 'sql'>, places: readonly { id: string }[]): Promise<AgentEvent[]> {
  const ids = places.map(({ id }) => id)
  const found = new Map<string, AgentEvent>((await agentEvents.among(sql, { ids })).map((event) => [event.id, event]))
  return ids.flatMap((id) => found.get(id) ?? [])
}

export const handleGet: Handler<'getAgentEvent', BrokerDeps> = async ({ sql }, request) => {
  const event = await agentEvents.get(sql, { id: request.params.id, with_deleted: seesDeleted(request) })
  if (event === null) throw new ApiError('agent_event_not_found', 'no such event')
  return withTag(request, event)
}
