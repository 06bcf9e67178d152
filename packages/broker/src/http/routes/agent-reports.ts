// What agents follow and report: the stream and their status; and the watch.
import { ApiError } from '@brokkr/contract/error.ts'
import { newEpoch } from '../../actions/new-epoch.ts'
import { recordStatus } from '../../actions/record-status.ts'
import type { BrokerDeps } from '../../deps.ts'
import { watchScopesOf } from '../../domain/watch-scope.ts'
import { formOf } from '../../feed/form.ts'
import { credentialKeys } from '../credential-cache.ts'
import { answered, type Handler } from '../handler.ts'
import { actorOf } from './actor.ts'

export const handleStream: Handler<'agentStream', BrokerDeps> = async ({ feed }, { params, query, principal, headers, reply }) => {
  const holds = query.count === undefined || query.digest === undefined ? null : { count: query.count, digest: query.digest }
  // The cursor and the feed are checked before the answer is taken over: a refusal is an ordinary error.
  const wished = {
    cursor: query.cursor ?? headers['last-event-id'],
    seen: query.seen,
    reason: query.reason,
    holds,
    form: formOf(headers['accept']),
    waitMs: waitOf(query.wait),
  }
  await feed.openStream(() => reply.hijack().response, { agentId: params.id, endsAtMs: principal.endsAtMs }, wished)
  return answered
}

/** `25s`, at most a minute; without it the stream does not end. */
function waitOf(wait: string | undefined): number | null {
  if (wait === undefined) return null
  const seconds = Number(/^(\d{1,3}(?:\.\d{1,3})?)s?$/.exec(wait)?.[1] ?? Number.NaN)
  if (Number.isNaN(seconds)) throw new ApiError('invalid_query_parameter', 'wait is a number of seconds, for example 25s')
  return Math.min(seconds, 60) * 1000
}

export const handleWatch: Handler<'watch', BrokerDeps> = async ({ feed }, { query, principal, headers, reply }) => {
  const wish = {
    scopes: watchScopesOf(query.scope),
    cursor: query.cursor ?? headers['last-event-id'],
    form: formOf(headers['accept'], 'sse'),
    rests: credentialKeys(principal),
    endsAtMs: principal.endsAtMs,
  }
  await feed.openWatch(() => reply.hijack().response, wish)
  return answered
}

export const handleNewEpoch: Handler<'newEpoch', BrokerDeps> = (deps, request) => newEpoch(deps, { by: actorOf(request) })

export const handleReportStatus: Handler<'reportStatus', BrokerDeps> = (deps, { params, body }) =>
  recordStatus({ ...deps, told: deps.feed.metrics }, { agentId: params.id, ...body })
