// Creates, claims and completes diagnostic requests. One agent is addressed; the change feed wakes it.
import type { DiagnosticRequest, DiagnosticResult } from '@brokkr/contract/diagnostics/diagnostic.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import * as agents from '../agents/store/agents.ts'
import { recordAuditEntry } from '../audit/record.ts'
import type { Actor } from '../audit/rules.ts'
import { uuid7 } from '../rules/uuid7.ts'
import type { EncryptionContext, Seal } from '../seal.ts'
import { checkDiagnosticParts, checkDiagnosticRequest, type DiagnosticParts } from './rules.ts'
import * as diagnostics from './store.ts'

type Deps = { readonly sql: Sql; readonly wakeFeed: () => void }

export interface RequestInput {
  readonly deploymentObjectId: string
  readonly agentId: string
  readonly requestedBy: string | null
  readonly retentionMinutes: number
  readonly actor: Actor
}

export async function requestDiagnostic(deps: Deps, input: RequestInput): Promise<DiagnosticRequest> {
  checkDiagnosticRequest(input)
  const { deploymentObjectId: deployment_object_id, agentId: agent_id, requestedBy: requested_by, actor } = input
  const id = uuid7()
  const request = await deps.sql.begin(async (sql) => {
    if ((await agents.holdLive(sql, { ids: [agent_id] })).length === 0) throw new ApiError('agent_not_found', 'no agent has this id')
    const row = { id, agent_id, deployment_object_id, requested_by, retention_minutes: input.retentionMinutes }
    const inserted = await diagnostics.insert(sql, row)
    const details = { agent_id, deployment_object_id }
    await recordAuditEntry(sql, { actor, action: 'diagnostic.requested', resource: { type: 'diagnostic', id }, details })
    return inserted
  })
  deps.wakeFeed()
  return request
}

/** Agents see their own requests only. */
export async function readDiagnostic(sql: Sql, { id, actor }: { id: string; actor: Actor }): Promise<DiagnosticRequest> {
  return requireOwn(await diagnostics.get(sql, { id }), actor)
}

export async function claimDiagnostic(deps: Deps, { id, actor }: { id: string; actor: Actor }): Promise<DiagnosticRequest> {
  const claimed = await deps.sql.begin(async (sql) => {
    requireOwn(await diagnostics.lock(sql, { id }), actor)
    return diagnostics.claim(sql, { id })
  })
  if (claimed === null) throw new ApiError('diagnostic_already_claimed', 'the diagnostic request was claimed before or has expired')
  deps.wakeFeed()
  return claimed
}

export interface ResultInput {
  readonly id: string
  readonly parts: DiagnosticParts
  readonly collectedAt: string
  readonly actor: Actor
}

/** A result that the agent submits again, because the response was lost, returns the stored one. */
export async function submitResult(deps: Deps & { readonly seal: Seal }, input: ResultInput): Promise<DiagnosticResult> {
  const { id: request_id, parts, collectedAt: collected_at, actor } = input
  const stored = await deps.sql.begin(async (sql) => {
    const request = requireOwn(await diagnostics.lock(sql, { id: request_id }), actor)
    if (request.status === 'completed') return diagnostics.getResult(sql, { request_id })
    if (request.status !== 'claimed')
      throw new ApiError(
        'diagnostic_not_claimed',
        `the diagnostic request is ${request.status}; claim a pending one before submitting a result`,
      )
    checkDiagnosticParts(parts)
    const id = uuid7()
    const parts_sealed = deps.seal.seal(toPartsContext(id), JSON.stringify(parts))
    const result = await diagnostics.insertResult(sql, { id, request_id, parts_sealed, collected_at })
    await diagnostics.complete(sql, { id: request_id })
    const details = { agent_id: request.agent_id }
    await recordAuditEntry(sql, { actor, action: 'diagnostic.completed', resource: { type: 'diagnostic', id: request_id }, details })
    return result
  })
  if (stored === null) throw new Error(`the result of diagnostic ${request_id} is missing`)
  deps.wakeFeed()
  return openResult(deps.seal, stored)
}

const toPartsContext = (id: string): EncryptionContext => ({ table: 'diagnostic_results', column: 'parts_sealed', id })

export function openResult(seal: Seal, { parts_sealed, ...result }: diagnostics.SealedResult): DiagnosticResult {
  const parts = JSON.parse(seal.open(toPartsContext(result.id), parts_sealed)) as DiagnosticParts
  return { ...result, ...parts }
}

function requireOwn(request: DiagnosticRequest | null, actor: Actor): DiagnosticRequest {
  if (request === null) throw new ApiError('diagnostic_not_found', 'no diagnostic request has this id')
  if (actor.kind === 'agent' && actor.id !== request.agent_id)
    throw new ApiError('diagnostic_not_owned', 'the diagnostic request is for another agent')
  return request
}
