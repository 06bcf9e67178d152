// Diagnostics: requests of admins, and their claims and results by agents.
import type { BrokerDeps } from '../deps.ts'
import { toActor } from '../http/request/actor.ts'
import { oldestFirst } from '../http/response/list-order.ts'
import { page } from '../http/response/paging.ts'
import type { Handler } from '../http/server/handler.ts'
import { claimDiagnostic, openResult, readDiagnostic, requestDiagnostic, submitResult } from './actions.ts'
import * as diagnostics from './store.ts'

const pendingMax = 100
const retentionMinutesDefault = 60

export const handleCreate: Handler<'createDiagnosticRequest', BrokerDeps> = (deps, request) => {
  const { agent_id: agentId, requested_by, retention_minutes } = request.body
  const limits = { requestedBy: requested_by ?? null, retentionMinutes: retention_minutes ?? retentionMinutesDefault }
  return requestDiagnostic(deps, { deploymentObjectId: request.params.id, agentId, ...limits, actor: toActor(request) })
}

export const handlePending: Handler<'getPendingDiagnostics', BrokerDeps> = ({ sql }, request) =>
  page(request, oldestFirst, {
    name: 'getPendingDiagnostics',
    cap: pendingMax,
    read: ({ after: [after_at, after_id], limit }) =>
      diagnostics.listPending(sql, { agent_id: request.params.id, after_at, after_id, limit }),
  })

export const handleGet: Handler<'getDiagnostic', BrokerDeps> = async ({ sql, seal }, request) => {
  const { id } = request.params
  const diagnostic = await readDiagnostic(sql, { id, actor: toActor(request) })
  const result = await diagnostics.getResult(sql, { request_id: id })
  return { request: diagnostic, result: result === null ? null : openResult(seal, result) }
}

export const handleClaim: Handler<'claimDiagnostic', BrokerDeps> = (deps, request) =>
  claimDiagnostic(deps, { id: request.params.id, actor: toActor(request) })

export const handleResult: Handler<'submitDiagnosticResult', BrokerDeps> = (deps, request) => {
  const { pod_statuses, events, log_tails, collected_at: collectedAt } = request.body
  const parts = { pod_statuses, events, log_tails: log_tails ?? null }
  return submitResult(deps, { id: request.params.id, parts, collectedAt, actor: toActor(request) })
}
