// The agent stream, status reports, the watch and the new epoch.
import { ApiError } from '@brokkr/contract/errors.ts'
import { declareNewEpoch } from '../../admin/actions/declare-new-epoch.ts'
import { parseWatchScopes } from '../../change-feed/rules/watch-scope.ts'
import { parseStreamFormat } from '../../change-feed/streams/stream-format.ts'
import type { BrokerDeps } from '../../deps.ts'
import { credentialKeys } from '../../http/authentication/credential-cache.ts'
import { toActor } from '../../http/request/actor.ts'
import { answered, type Handler } from '../../http/server/handler.ts'
import { recordStatus } from '../actions/record-status.ts'

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
