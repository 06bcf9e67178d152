// Changes that the pipelines program makes for a caller of the broker. The audit entry follows the change: every change may be repeated,
// so a caller that got no answer tries again and the entry is written then.
import type { Input } from '@brokkr/contract/endpoints.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../audit/record.ts'
import type { Actor } from '../audit/rules.ts'
import type { Forwarder } from './forwarder.ts'
import type { ForwardedAnswer } from './rules.ts'

export interface ChangeDeps {
  readonly sql: Sql
  readonly forwarder: Forwarder
}
export interface Change<N extends 'startRun' | 'decidePromotion' | 'retryPromotion' | 'abortPromotion'> {
  readonly params: Input<N>['params']
  readonly body: Input<N>['body']
  readonly actor: Actor
  readonly approver: string
  readonly idempotencyKey: string | undefined
  readonly signal: AbortSignal
}

export function startRun(deps: ChangeDeps, change: Change<'startRun'>): Promise<ForwardedAnswer> {
  const { kind, revision, environments = [] } = change.body
  const entry = { action: kind === 'rollback' ? 'pipeline.rolled_back' : 'pipeline.run_started', details: { revision, environments } }
  return forwardChange(deps, change, { resource: 'pipeline', path: 'runs', ...entry })
}

export function decidePromotion(deps: ChangeDeps, change: Change<'decidePromotion'>): Promise<ForwardedAnswer> {
  const action = change.body.decision === 'approve' ? 'promotion.approved' : 'promotion.rejected'
  return forwardChange(deps, change, { resource: 'promotion', path: 'decision', action, details: { key: change.body.key } })
}

export const retryPromotion = (deps: ChangeDeps, change: Change<'retryPromotion'>): Promise<ForwardedAnswer> =>
  forwardChange(deps, change, { resource: 'promotion', path: 'retry', action: 'promotion.retried', details: {} })

export const abortPromotion = (deps: ChangeDeps, change: Change<'abortPromotion'>): Promise<ForwardedAnswer> =>
  forwardChange(deps, change, { resource: 'promotion', path: 'abort', action: 'promotion.aborted', details: {} })

async function forwardChange(
  { sql, forwarder }: ChangeDeps,
  change: Omit<Change<'startRun'>, 'body'> & { readonly body: unknown },
  what: { resource: 'pipeline' | 'promotion'; path: string; action: string; details: Record<string, unknown> },
): Promise<ForwardedAnswer> {
  const { params, body, actor, approver, idempotencyKey, signal } = change
  const path = [`${what.resource}s`, params.namespace, params.name, what.path]
  const answer = await forwarder.toPipelines({ method: 'POST', path, body, approver, idempotencyKey, signal })
  const details = { namespace: params.namespace, name: params.name, ...what.details }
  await recordAuditEntry(sql, { actor, action: what.action, resource: { type: what.resource, id: null }, details })
  return answer
}
