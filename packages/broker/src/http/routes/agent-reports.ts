// What agents follow and report: the stream, status and events.
import { ApiError } from '@brokkr/contract/error.ts'
import { recordAgentEvent, recordAgentEvents } from '../../actions/record-agent-events.ts'
import { recordStatus } from '../../actions/record-status.ts'
import type { BrokerDeps } from '../../deps.ts'
import { formOf } from '../../feed/form.ts'
import * as agentEvents from '../../store/agent-events.ts'
import { answered, type Handler } from '../handler.ts'
import { actorOf } from './actor.ts'

const listMax = 1000

export const handleStream: Handler<'agentStream', BrokerDeps> = async ({ feed }, { params, query, principal, headers, reply }) => {
  const holds = query.count === undefined || query.digest === undefined ? null : { count: query.count, digest: query.digest }
  const expiresAtMs = principal.expiresAt === null ? null : Date.parse(principal.expiresAt)
  // The cursor and the feed are checked before the answer is taken over: a refusal is an ordinary error.
  const wished = {
    cursor: query.cursor ?? headers['last-event-id'],
    reason: query.reason,
    holds,
    form: formOf(headers['accept']),
    waitMs: waitOf(query.wait),
  }
  await feed.openStream(() => reply.hijack().response, { agentId: params.id, expiresAtMs }, wished)
  return answered
}

/** `25s`, at most a minute; without it the stream does not end. */
function waitOf(wait: string | undefined): number | null {
  if (wait === undefined) return null
  const seconds = Number(/^(\d{1,3}(?:\.\d{1,3})?)s?$/.exec(wait)?.[1] ?? Number.NaN)
  if (Number.isNaN(seconds)) throw new ApiError('invalid_query_parameter', 'wait is a number of seconds, for example 25s')
  return Math.min(seconds, 60) * 1000
}

/** Kinds an admin may follow over the whole feed: `scope=kind:stack`. */
export const handleWatch: Handler<'watch', BrokerDeps> = async ({ feed }, { query, principal, reply }) => {
  const kinds = query.scope.map((scope) => /^kind:([a-z_]+)$/.exec(scope)?.[1])
  if (kinds.includes(undefined)) throw new ApiError('invalid_query_parameter', 'scope is kind:<object kind>, for example kind:stack')
  const expiresAtMs = principal.expiresAt === null ? null : Date.parse(principal.expiresAt)
  const rests = [`${principal.kind} ${principal.id}`]
  feed.openWatch(() => reply.hijack().response, { kinds: new Set(kinds as string[]), rests, expiresAtMs })
  return answered
}

export const handleReportStatus: Handler<'reportStatus', BrokerDeps> = (deps, { params, body }) =>
  recordStatus(deps, { agentId: params.id, session: body.session, n: body.n, stacks: body.stacks, check: body.check })

export const handleListEvents: Handler<'listEvents', BrokerDeps> = ({ sql }, { params }) =>
  agentEvents.listOfAgent(sql, { agent_id: params.id, limit: listMax })

export const handleCreateEvent: Handler<'createEvent', BrokerDeps> = (deps, request) =>
  recordAgentEvent(deps, { agentId: request.params.id, event: request.body, by: actorOf(request) })

export const handleCreateEvents: Handler<'createEvents', BrokerDeps> = async (deps, request) => ({
  results: await recordAgentEvents(deps, { agentId: request.params.id, events: request.body.events, by: actorOf(request) }),
})

export const handleListAgentEvents: Handler<'listAgentEvents', BrokerDeps> = ({ sql }, { query }) => {
  const filter = {
    generator_id: query.pak_id ?? null,
    stack_id: query.stack_id ?? null,
    agent_id: query.agent_id ?? null,
    event_type: query.event_type ?? null,
    since: query.since ?? null,
  }
  const list =
    query.agent_id !== undefined
      ? agentEvents.listOfAgentByTime
      : query.stack_id !== undefined
        ? agentEvents.listOfStackByTime
        : agentEvents.listByTime
  return list(sql, { ...filter, limit: listMax })
}

export const handleGetAgentEvent: Handler<'getAgentEvent', BrokerDeps> = async ({ sql }, { params }) => {
  const event = await agentEvents.get(sql, { id: params.id })
  if (event === null) throw new ApiError('agent_event_not_found', 'no such event')
  return event
}
