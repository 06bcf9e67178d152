// What agents follow and report: the stream and their status; and the watch.
import { ApiError } from '@brokkr/contract/error.ts'
import { recordStatus } from '../../actions/record-status.ts'
import type { BrokerDeps } from '../../deps.ts'
import { formOf } from '../../feed/form.ts'
import { credentialKeys } from '../credential-cache.ts'
import { answered, type Handler } from '../handler.ts'

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
  const rests = credentialKeys(principal)
  feed.openWatch(() => reply.hijack().response, { kinds: new Set(kinds as string[]), rests, expiresAtMs })
  return answered
}

export const handleReportStatus: Handler<'reportStatus', BrokerDeps> = (deps, { params, body }) =>
  recordStatus(deps, { agentId: params.id, session: body.session, n: body.n, stacks: body.stacks, check: body.check })
