// Error codes and their HTTP status. Codes never change; messages may. Clients receive {code, message, details?}. An unexpected
// error is internal_error with a request id only.
import { z } from 'zod'

export const errorStatus = {
  // any operation
  unauthorized: 401,
  admin_required: 403,
  readonly: 403,
  scope_denied: 403,
  origin_refused: 403,
  not_found: 404,
  route_not_found: 404,
  method_not_allowed: 405,
  unique_violation: 409,
  idempotency_in_progress: 409,
  secret_already_issued: 409,
  precondition_failed: 412,
  payload_too_large: 413,
  uri_too_long: 414,
  unsupported_media_type: 415,
  invalid_json: 400,
  invalid_path_parameter: 400,
  invalid_query_parameter: 400,
  invalid_cursor: 400,
  invalid_request_body: 422,
  validation_failed: 422,
  foreign_key_violation: 422,
  check_violation: 422,
  not_null_violation: 422,
  immutable_field: 422,
  limit_exceeded: 422,
  idempotency_key_reused: 422,
  upgrade_required: 426,
  rate_limited: 429,
  internal_error: 500,
  overloaded: 503,
  timeout: 503,
  database_unavailable: 503,
  not_available: 501,
  agent_image_unset: 503,
  preview_unavailable: 503,
  pipelines_unavailable: 503,
  // feed
  bad_cursor: 400,
  feed_unavailable: 503,
  draining: 503,
  // agents
  agent_not_found: 404,
  agent_pak_mismatch: 403,
  agent_pak_required: 403,
  name_and_cluster_required: 400,
  invalid_agent: 400,
  invalid_generator_id: 400,
  agent_id_mismatch: 400,
  agent_label_not_found: 404,
  agent_annotation_not_found: 404,
  agent_target_not_found: 404,
  agent_not_registered: 403,
  target_generator_mismatch: 403,
  target_create_denied: 403,
  clock_skew: 422,
  inventory_base_unknown: 409,
  // generators
  generator_not_found: 404,
  generator_not_owned: 403,
  generator_required: 403,
  generator_inactive: 403,
  cannot_delete_system_generator: 403,
  cannot_rotate_system_generator: 403,
  system_generator_not_a_tenant: 403,
  already_registered: 409,
  missing_agent_id: 400,
  forbidden: 403,
  not_authorized: 403,
  // stacks, objects
  stack_not_found: 404,
  stack_not_owned: 403,
  stack_not_accessible: 403,
  stack_create_denied: 403,
  stack_generator_mismatch: 403,
  stacks_list_denied: 403,
  stack_id_mismatch: 400,
  stack_moved: 409,
  invalid_label: 400,
  invalid_annotation: 400,
  stack_label_not_found: 404,
  stack_annotation_not_found: 404,
  invalid_deployment_object: 400,
  deployment_object_not_found: 404,
  agent_not_associated: 403,
  generator_not_associated: 403,
  rollback_to_marker: 422,
  hold_not_found: 404,
  hold_not_owned: 403,
  hold_sequence_invalid: 422,
  stack_held: 409,
  stack_not_deleted: 409,
  generator_deleted: 409,
  // flows
  flow_not_found: 404,
  invalid_flow_order: 422,
  // plans
  plan_not_found: 404,
  plan_not_targeted: 403,
  plan_expired: 409,
  plan_outdated: 409,
  // templates
  template_not_found: 404,
  template_not_accessible: 403,
  template_not_owned: 403,
  templates_not_accessible: 403,
  template_label_not_found: 404,
  template_annotation_not_found: 404,
  invalid_template_syntax: 400,
  invalid_parameters_schema: 400,
  invalid_parameters: 400,
  template_render_failed: 400,
  template_stack_mismatch: 422,
  // work orders
  no_targeting_specified: 400,
  invalid_work_order: 400,
  work_order_not_found: 404,
  work_order_not_claimable: 404,
  work_order_not_claimed_by_agent: 403,
  work_order_log_entry_not_found: 404,
  work_order_attempt_stale: 409,
  work_order_succeeded: 409,
  // webhooks
  webhook_not_found: 404,
  url_required: 400,
  invalid_url_scheme: 400,
  invalid_webhook: 400,
  unsupported_field: 422,
  webhook_test_failed: 400,
  delivery_not_found: 404,
  delivery_not_acquired_by_agent: 403,
  // diagnostics
  diagnostic_not_found: 404,
  diagnostic_not_owned: 403,
  diagnostic_already_claimed: 409,
  diagnostic_not_claimed: 409,
  invalid_diagnostic_request: 400,
  invalid_diagnostic_result: 400,
  // promotions
  promotion_conflict: 409,
  // health, events, admin
  invalid_health_record: 422,
  agent_event_not_found: 404,
  config_invalid: 422,
  last_admin_pak: 409,
} as const satisfies Record<string, number>

export type ErrorCode = keyof typeof errorStatus

export const ErrorBody = z.object({
  code: z.string(),
  message: z.string(),
  details: z.record(z.string(), z.unknown()).optional(),
})
export type ErrorBody = z.output<typeof ErrorBody>

/** Codes that some responses use with a second status, for compatibility with existing clients. */
export const secondStatus: Partial<Record<ErrorCode, number>> = { invalid_webhook: 422 }

/** An expected rejection. The broker throws it, the server maps it to its status, the client rebuilds it from the response. */
export class ApiError extends Error {
  override readonly name = 'ApiError'
  readonly code: ErrorCode
  readonly status: number
  readonly details: Readonly<Record<string, unknown>> | undefined
  readonly retryAfterSeconds: number | undefined
  /** False: the answer had no error body, so a proxy may have written it, and the code is a guess by status. */
  readonly hasBody: boolean

  constructor(
    code: ErrorCode,
    message: string,
    options: { details?: Record<string, unknown>; retryAfterSeconds?: number; cause?: unknown; status?: number; hasBody?: boolean } = {},
  ) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.status = options.status ?? errorStatus[code]
    this.details = options.details
    this.retryAfterSeconds = options.retryAfterSeconds
    this.hasBody = options.hasBody ?? true
  }
}
