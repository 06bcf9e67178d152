// Errors of calls to the API server, by Kubernetes' reason, plus own reasons for failures without a response.

/** Reasons as the API server writes them, followed by our own. */
export type KubeReason =
  | 'BadRequest'
  | 'Unauthorized'
  | 'Forbidden'
  | 'NotFound'
  | 'MethodNotAllowed'
  | 'NotAcceptable'
  | 'AlreadyExists'
  | 'Conflict'
  | 'Gone'
  | 'Expired'
  | 'RequestEntityTooLarge'
  | 'UnsupportedMediaType'
  | 'Invalid'
  | 'TooManyRequests'
  | 'InternalError'
  | 'ServiceUnavailable'
  | 'ServerTimeout'
  | 'Timeout'
  | 'StoreReadError'
  | 'Unknown'
  | 'Unreachable'
  | 'TimedOut'
  | 'Untrusted'
  | 'BadAnswer'
  | 'AnswerTooLarge'
  | 'UnknownKind'
  | 'DiscoveryFailed'
  | 'BadCredential'

export interface KubeCause {
  reason?: string | undefined
  message?: string | undefined
  field?: string | undefined
}

export interface KubeDetails {
  name?: string | undefined
  group?: string | undefined
  kind?: string | undefined
  causes: KubeCause[]
}

export class KubeError extends Error {
  override readonly name = 'KubeError'
  readonly reason: KubeReason
  /** HTTP status; 0 without a response. */
  readonly status: number
  readonly retryAfterMs: number | undefined
  readonly details: KubeDetails

  constructor(
    message: string,
    facts: { reason: KubeReason; status?: number; retryAfterMs?: number | undefined; details?: KubeDetails; cause?: unknown },
  ) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause })
    this.reason = facts.reason
    this.status = facts.status ?? 0
    this.retryAfterMs = facts.retryAfterMs
    this.details = facts.details ?? { causes: [] }
  }

  /** True if the same call may succeed later without a change by a user. */
  get retryable(): boolean {
    return RETRYABLE.has(this.reason) || this.status === 502 || this.status === 504
  }
}

const RETRYABLE: ReadonlySet<KubeReason> = new Set([
  'TooManyRequests',
  'InternalError',
  'ServiceUnavailable',
  'ServerTimeout',
  'Timeout',
  'Unreachable',
  'TimedOut',
  'DiscoveryFailed',
  'StoreReadError',
])

export const hasReason = (error: unknown, ...reasons: readonly KubeReason[]): error is KubeError =>
  error instanceof KubeError && reasons.includes(error.reason)

/** The server looked for this object and did not find it. A 404 without an object name concerns the path: the kind is not served at the
 *  moment, which says nothing about its objects. */
export const isObjectNotFound = (error: unknown): boolean => hasReason(error, 'NotFound') && error.details.name !== undefined
