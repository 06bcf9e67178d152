// Every failure of a call to the API server, told apart by Kubernetes' own reason word, plus a few of ours for what never reached it.

/** Reasons as the API server writes them; the second line holds ours. */
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
  /** HTTP status; 0 when no answer came. */
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

  /** The same call may succeed later without anybody changing anything. */
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

/** The watch or list position is older than what the server still knows: list again. */
export const isExpired = (error: unknown): boolean => hasReason(error, 'Gone', 'Expired')
