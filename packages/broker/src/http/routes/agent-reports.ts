// What agents follow and report: the stream, status and events.
import { ApiError } from '@brokkr/contract/error.ts'
import { recordAgentEvent } from '../../actions/record-agent-event.ts'
import { recordStatus } from '../../actions/record-status.ts'
import type { BrokerDeps } from '../../deps.ts'
import * as agentEvents from '../../store/agent-events.ts'
import { credentialKeys } from '../credential-cache.ts'
import { answered, type Handler } from '../handler.ts'
import { actorOf } from './actor.ts'

const listMax = 1000

export const handleStream: Handler<'agentStream', BrokerDeps> = async ({ feed }, { params, query, principal, reply }) => {
  const holds = query.count === undefined || query.digest === undefined ? null : { count: query.count, digest: query.digest }
  const expiresAtMs = principal.expiresAt === null ? null : Date.parse(principal.expiresAt)
  // The cursor and the feed are checked before the answer is taken over: a refusal is an ordinary error.
  await feed.openStream(
    () => reply.hijack().response,
    { agentId: params.id, expiresAtMs },
    { cursor: query.cursor, reason: query.reason, holds },
  )
  return answered
}

/** Kinds an admin may follow over the whole feed: `scope=kind:stack`. */
export const handleWatch: Handler<'watch', BrokerDeps> = async ({ feed }, { query, principal, reply }) => {
  const kinds = query.scope.map((scope) => /^kind:([a-z_]+)$/.exec(scope)?.[1])
  if (kinds.includes(undefined)) throw new ApiError('invalid_query_parameter', 'scope is kind:<object kind>, for example kind:stack')
  const expiresAtMs = principal.expiresAt === null ? null : Date.parse(principal.expiresAt)
  const rests = credentialKeys(principal)
  feed.openWatch(() => reply.hijack().response, { kinds: new Set(kinds as string[]), rests, expiresAtMs })
  return answered
}

export const handleReportStatus: Handler<'reportStatus', BrokerDeps> = (deps, { params, body }) =>
  recordStatus(deps, { agentId: params.id, session: body.session, n: body.n, stacks: body.stacks, check: body.check })

export const handleListEvents: Handler<'listEvents', BrokerDeps> = ({ sql }, { params }) =>
  agentEvents.listOfAgent(sql, { agent_id: params.id, limit: listMax })

export const handleCreateEvent: Handler<'createEvent', BrokerDeps> = (deps, request) =>
  recordAgentEvent(deps, { agentId: request.params.id, event: request.body, by: actorOf(request) })
