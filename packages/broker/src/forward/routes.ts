// Pipelines, promotions and previews of flows: served by other programs, under the permissions of the broker.
import { hash } from 'node:crypto'
import { previewBodyBytesMax } from '@brokkr/contract/dataflow/preview.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { BrokerDeps } from '../deps.ts'
import { toActor } from '../http/request/actor.ts'
import type { Answered, Handler, RequestContext } from '../http/server/handler.ts'
import { abortPromotion, decidePromotion, retryPromotion, startRun } from './actions.ts'
import type { ForwardedAnswer } from './rules.ts'

export const handleListPipelines: Handler<'listPipelines', BrokerDeps> = async ({ forwarder }, request) =>
  reply(request, await forwarder.toPipelines({ method: 'GET', path: ['pipelines'], query: request.query, ...callerOf(request) }))

export const handleListPromotions: Handler<'listPromotions', BrokerDeps> = async ({ forwarder }, request) =>
  reply(request, await forwarder.toPipelines({ method: 'GET', path: ['promotions'], query: request.query, ...callerOf(request) }))

export const handleExplainPipeline: Handler<'explainPipeline', BrokerDeps> = async ({ forwarder }, request) => {
  const path = ['pipelines', request.params.namespace, request.params.name, 'explain']
  const query = request.query.diff ? { diff: '1' } : {}
  return reply(request, await forwarder.toPipelines({ method: 'GET', path, query, ...callerOf(request) }))
}

export const handleStartRun: Handler<'startRun', BrokerDeps> = async (deps, request) =>
  reply(request, await startRun(deps, { ...request, ...changeOf(request) }))

export const handleDecidePromotion: Handler<'decidePromotion', BrokerDeps> = async (deps, request) =>
  reply(request, await decidePromotion(deps, { ...request, ...changeOf(request) }))

export const handleRetryPromotion: Handler<'retryPromotion', BrokerDeps> = async (deps, request) =>
  reply(request, await retryPromotion(deps, { ...request, ...changeOf(request) }))

export const handleAbortPromotion: Handler<'abortPromotion', BrokerDeps> = async (deps, request) => {
  await abortPromotion(deps, { ...request, ...changeOf(request) })
}

export const handlePreviewFlow: Handler<'previewFlow', BrokerDeps> = async ({ forwarder }, request) => {
  const body = JSON.stringify(request.body)
  if (Buffer.byteLength(body) > previewBodyBytesMax)
    throw new ApiError('payload_too_large', `a preview has at most ${previewBodyBytesMax} bytes: send fewer or smaller samples`)
  return reply(request, await forwarder.toPreview({ body, signal: request.signal }))
}

const callerOf = ({ principal, signal }: RequestContext) => ({ approver: principal.name, signal })
const changeOf = (request: RequestContext) => ({ ...callerOf(request), actor: toActor(request), idempotencyKey: toCallerKey(request) })

/** Two callers may have one name: the id keeps their keys apart. A hash, since both together can exceed the length of a key. */
function toCallerKey({ principal, headers }: RequestContext): string | undefined {
  const key = headers['idempotency-key']
  return key === undefined ? undefined : hash('sha256', `${principal.id}\n${key}`)
}

/** The body as the program wrote it. */
function reply({ reply: control }: RequestContext, { status, text, nextCursor }: ForwardedAnswer): Answered {
  if (nextCursor !== null) control.setHeader('x-next-cursor', nextCursor)
  control.setStatus(status === 201 ? 201 : status === 202 ? 202 : 200)
  return control.text('application/json; charset=utf-8', text.trim() === '' ? '{}' : text)
}
