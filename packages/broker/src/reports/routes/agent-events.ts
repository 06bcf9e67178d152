// Agent events: create one or many, list, read.

import { ApiError } from '@brokkr/contract/errors.ts'
import type { BrokerDeps } from '../../deps.ts'
import { toActor } from '../../http/request/actor.ts'
import { includesDeleted } from '../../http/request/sees-deleted.ts'
import { withTag } from '../../http/response/etag.ts'
import { newestFirst, oldestFirst } from '../../http/response/list-order.ts'
import { page } from '../../http/response/paging.ts'
import type { Handler } from '../../http/server/handler.ts'
import { readAgentEvents } from '../actions/read-agent-events.ts'
import { recordAgentEvent, recordAgentEvents } from '../actions/record-agent-events.ts'
import * as agentEvents from '../store/agent-events.ts'

const cap = 1000

export const handleCreate: Handler<'createEvent', BrokerDeps> = (deps, request) =>
  recordAgentEvent(deps, { agentId: request.params.id, event: request.body, actor: toActor(request) })

export const handleCreateMany: Handler<'createEvents', BrokerDeps> = async (deps, request) => {
  const results = await recordAgentEvents(deps, { agentId: request.params.id, events: request.body.events, actor: toActor(request) })
  if (results.some(({ code }) => code === 'agent_not_associated')) request.reply.deniedPart('agent_not_associated')
  return { results }
}

export const handleListOfAgent: Handler<'listEvents', BrokerDeps> = async ({ sql }, request) => {
  const filter = { agent_id: request.params.id, with_deleted: includesDeleted(request) }
  const entries = await page(request, newestFirst, {
    name: 'listEvents',
    cap,
    read: ({ after: [after_at, after_id], limit }) => agentEvents.listOfAgent(sql, { ...filter, after_at, after_id, limit }),
    bytesOf: ({ bytes }) => 512 + bytes,
  })
  return readAgentEvents({ sql }, entries)
}

export const handleList: Handler<'listAgentEvents', BrokerDeps> = async ({ sql }, request) => {
  const { pak_id, stack_id, agent_id, event_type, since } = request.query
  const ids = { generator_id: pak_id ?? null, stack_id: stack_id ?? null, agent_id: agent_id ?? null }
  const filter = { ...ids, event_type: event_type ?? null, since: since ?? null, with_deleted: includesDeleted(request) }
  const list =
    agent_id !== undefined ? agentEvents.listOfAgentByTime : stack_id !== undefined ? agentEvents.listOfStackByTime : agentEvents.listByTime
  const entries = await page(request, oldestFirst, {
    name: 'listAgentEvents',
    cap,
    read: ({ after: [after_at, after_id], limit }) => list(sql, { ...filter, after_at, after_id, limit }),
    bytesOf: ({ bytes }) => 512 + bytes,
  })
  return readAgentEvents({ sql }, entries)
}

export const handleGet: Handler<'getAgentEvent', BrokerDeps> = async ({ sql }, request) => {
  const event = await agentEvents.get(sql, { id: request.params.id, with_deleted: includesDeleted(request) })
  if (event === null) throw new ApiError('agent_event_not_found', 'no such event')
  return withTag(request, event)
}
