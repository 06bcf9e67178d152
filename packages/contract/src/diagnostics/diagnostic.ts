// Diagnostics: a request to an agent to collect pod statuses, events and logs of a deployment object once, and the result.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { AgentId, byId, DeploymentObjectId, pageQuery, Timestamp, Uuid } from '../wire.ts'

export const DiagnosticRequest = z.object({
  id: Uuid,
  agent_id: AgentId,
  deployment_object_id: DeploymentObjectId,
  status: z.enum(['pending', 'claimed', 'completed', 'expired', 'failed']),
  requested_by: z.string().nullable(),
  created_at: Timestamp,
  claimed_at: Timestamp.nullable(),
  completed_at: Timestamp.nullable(),
  expires_at: Timestamp,
})
export type DiagnosticRequest = z.output<typeof DiagnosticRequest>

/** The parts are JSON in strings. */
export const DiagnosticResult = z.object({
  id: Uuid,
  request_id: Uuid,
  pod_statuses: z.string(),
  events: z.string(),
  log_tails: z.string().nullable(),
  collected_at: Timestamp,
  created_at: Timestamp,
})
export type DiagnosticResult = z.output<typeof DiagnosticResult>

export const createDiagnosticRequest = endpoint({
  method: 'POST',
  path: '/api/v1/deployment-objects/{id}/diagnostics',
  summary: 'Request diagnostics of a deployment object from an agent',
  params: byId(DeploymentObjectId),
  body: z.object({
    agent_id: AgentId,
    requested_by: z.string().nullable().optional(),
    retention_minutes: z.int().nullable().optional(),
  }),
  success: 201,
  response: DiagnosticRequest,
  errors: ['deployment_object_not_found', 'agent_not_found', 'invalid_diagnostic_request'],
})

export const getPendingDiagnostics = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{id}/diagnostics/pending',
  summary: 'List pending diagnostic requests of an agent, oldest first',
  params: byId(AgentId),
  query: z.object(pageQuery),
  success: 200,
  response: z.array(DiagnosticRequest),
  errors: ['agent_not_found', 'agent_pak_mismatch', 'invalid_cursor'],
})

export const getDiagnostic = endpoint({
  method: 'GET',
  path: '/api/v1/diagnostics/{id}',
  summary: 'Read a diagnostic request with its result, if there is one',
  params: byId(Uuid),
  success: 200,
  response: z.object({ request: DiagnosticRequest, result: DiagnosticResult.nullable() }),
  errors: ['diagnostic_not_found', 'diagnostic_not_owned'],
})

export const claimDiagnostic = endpoint({
  method: 'POST',
  path: '/api/v1/diagnostics/{id}/claim',
  summary: 'Claim a diagnostic request',
  params: byId(Uuid),
  success: 200,
  response: DiagnosticRequest,
  errors: ['diagnostic_not_found', 'diagnostic_not_owned', 'diagnostic_already_claimed'],
})

export const submitDiagnosticResult = endpoint({
  method: 'POST',
  path: '/api/v1/diagnostics/{id}/result',
  summary: 'Submit the result of a claimed diagnostic request; a repeated call returns the stored result',
  params: byId(Uuid),
  body: z.object({
    pod_statuses: z.string(),
    events: z.string(),
    log_tails: z.string().nullable().optional(),
    collected_at: Timestamp,
  }),
  success: 201,
  response: DiagnosticResult,
  errors: ['diagnostic_not_found', 'diagnostic_not_owned', 'diagnostic_not_claimed', 'invalid_diagnostic_result'],
})
