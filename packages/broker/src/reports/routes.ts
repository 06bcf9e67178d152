// Routes of reports: agent stream, watch, status, new epoch, agent events, prune approvals.
import { ApiError } from '@brokkr/contract/errors.ts'
import { declareNewEpoch } from '../change-feed/actions.ts'
import { parseWatchScopes } from '../change-feed/rules.ts'
import { parseStreamFormat } from '../change-feed/streams/frame-writer.ts'
import type { BrokerDeps } from '../deps.ts'
import { credentialKeys } from '../http/authentication/credential-cache.ts'
import { toActor } from '../http/request/actor.ts'
import { includesDeleted } from '../http/request/query.ts'
import { withTag } from '../http/response/etag.ts'
import { newestFirst, oldestFirst } from '../http/response/list-order.ts'
import { page } from '../http/response/paging.ts'
import { answered, type Handler } from '../http/server/handler.ts'
import { readAgentEvents, recordAgentEvent, recordAgentEvents } from './actions/agent-events.ts'
import { approvePrune } from './actions/approve-prune.ts'
import { recordStatus } from './actions/record-status.ts'
import * as agentEvents from './store/agent-events.ts'
import * as pruneApprovals from './store/prune-approvals.ts'

export const handleStream: Handler<'agentStream', BrokerDeps> = async ({ feed }, { params, query, principal, headers, reply }) => {
  const holds = query.count === undefined || query.digest === undefined ? null : { count: query.count, digest: query.digest }
  // Cursor and change feed are checked before the response is hijacked, so that a rejection is an ordinary error response.
  const options = {
    cursor: query.cursor ?? headers['last-event-id'],
    seen: query.seen,
    reason: query.reason,
    holds,
    format: parseStreamFormat(headers['accept']),
    waitMs: parseWait(query.wait),
  }
  await feed.openStream(() => reply.hijack().response, { agentId: params.id, endsAtMs: principal.endsAtMs }, options)
  return answered
}

/** Parses `25s`, at most one minute. Without it the stream has no end. */
function parseWait(wait: string | undefined): number | null {
  if (wait === undefined) return null
  const seconds = Number(/^(\d{1,3}(?:\.\d{1,3})?)s?$/.exec(wait)?.[1] ?? Number.NaN)
  if (Number.isNaN(seconds)) throw new ApiError('invalid_query_parameter', 'wait is a number of seconds, for example 25s')
  return Math.min(seconds, 60) * 1000
}

export const handleWatch: Handler<'watch', BrokerDeps> = async ({ feed }, { query, principal, headers, reply }) => {
  const options = {
    scopes: parseWatchScopes(query.scope),
    cursor: query.cursor ?? headers['last-event-id'],
    format: parseStreamFormat(headers['accept'], 'sse'),
    credentialKeys: credentialKeys(principal),
    endsAtMs: principal.endsAtMs,
  }
  await feed.openWatch(() => reply.hijack().response, options)
  return answered
}

export const handleNewEpoch: Handler<'newEpoch', BrokerDeps> = (deps, request) => declareNewEpoch(deps, { actor: toActor(request) })

export const handleReportStatus: Handler<'reportStatus', BrokerDeps> = (deps, request) =>
  recordStatus({ ...deps, metrics: deps.feed.metrics }, { agentId: request.params.id, actor: toActor(request), ...request.body })

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

export const handleApprove: Handler<'approvePrune', BrokerDeps> = (deps, request) => {
  const { removals = null, stack_id: stackId = null, sequence_id: sequenceId = null } = request.body
  return approvePrune(deps, { agentId: request.params.id, removals, stackId, sequenceId, actor: toActor(request) })
}

export const handleListApprovals: Handler<'listPruneApprovals', BrokerDeps> = ({ sql }, { params }) =>
  pruneApprovals.listOpen(sql, { agent_id: params.id })
