// Answers of a broker of the first version about work orders, deliveries and diagnostics, as they were recorded, with ids filled
// in. What a later broker adds to them is added by the tests that need it.
const ts = '2026-01-02T03:04:05.678901Z'

export const recordedOrder = (id: string, change: Record<string, unknown> = {}) => ({
  id,
  created_at: ts,
  updated_at: ts,
  work_type: 'custom',
  yaml_content: 'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: job\n  namespace: default\ndata:\n  v: "1"\n',
  status: 'PENDING',
  claimed_by: null,
  claimed_at: null,
  claim_timeout_seconds: 3600,
  max_retries: 3,
  retry_count: 0,
  backoff_seconds: 60,
  next_retry_after: null,
  last_error: null,
  last_error_at: null,
  ...change,
})
export const recordedLog = (id: string, success: boolean) => ({
  id,
  work_type: 'custom',
  created_at: ts,
  claimed_at: ts,
  completed_at: ts,
  claimed_by: null,
  success,
  retries_attempted: 0,
  result_message: 'done',
  yaml_content: '',
})
export const retryScheduled = { status: 'retry_scheduled' }
export const notClaimable = { code: 'work_order_not_claimable', message: 'work order not found or not claimable' }

export const recordedDelivery = (id: string, url: string, change: Record<string, unknown> = {}) => ({
  id,
  subscription_id: '0e000000-0000-4000-8000-000000000106',
  event_type: 'deployment.created',
  payload: `{"id":"0e000000-0000-4000-8000-000000000119","event_type":"deployment.created","timestamp":"${ts}","data":{"sequence_id":24}}`,
  url,
  auth_header: null,
  timeout_seconds: 5,
  max_retries: 2,
  attempts: 0,
  ...change,
})
export const deliveryReported = (id: string) => ({ attempts: 1, delivery_id: id, next_retry_at: ts, status: 'failed' })

export const recordedDiagnostic = (id: string, agentId: string, objectId: string, status = 'pending') => ({
  id,
  agent_id: agentId,
  deployment_object_id: objectId,
  status,
  requested_by: 'ops',
  created_at: ts,
  claimed_at: status === 'pending' ? null : ts,
  completed_at: null,
  expires_at: '2999-01-02T03:04:05.000000Z',
})
