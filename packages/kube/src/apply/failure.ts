// Maps an error of a write to a failure code that users see. Pure.
import { hasReason, KubeError } from '../client/kube-error.ts'

export type FailureCode =
  | 'invalid'
  | 'immutable_field'
  | 'missing_kind'
  | 'missing_namespace'
  | 'forbidden'
  | 'denied'
  | 'field_conflict'
  | 'conflict'
  | 'foreign_object'
  | 'namespace'
  | 'crd'
  | 'gone'
  | 'unavailable'

export interface FieldConflict {
  manager: string
  field: string
}

export interface Failure {
  code: FailureCode
  message: string
  retryable: boolean
  retryAfterMs?: number
  conflicts?: FieldConflict[]
}

export function classifyFailure(error: unknown): Failure {
  if (!(error instanceof KubeError))
    return { code: 'unavailable', message: error instanceof Error ? error.message : String(error), retryable: true }
  const conflicts = findFieldConflicts(error)
  return {
    code: conflicts.length > 0 ? 'field_conflict' : toFailureCode(error),
    message: error.message,
    retryable: error.retryable,
    ...(error.retryAfterMs === undefined ? {} : { retryAfterMs: error.retryAfterMs }),
    ...(conflicts.length > 0 ? { conflicts } : {}),
  }
}

/** Managers and fields of a server-side apply conflict; empty for other errors. */
export function findFieldConflicts(error: unknown): FieldConflict[] {
  if (!hasReason(error, 'Conflict')) return []
  return error.details.causes
    .filter((cause) => cause.reason === 'FieldManagerConflict')
    .map((cause) => ({ manager: (cause.message ?? '').match(/"([^"]*)"/)?.[1] ?? 'unknown', field: cause.field ?? '' }))
}

export const isImmutable = (error: unknown): boolean =>
  hasReason(error, 'Invalid') &&
  (error.details.causes.some((cause) => IMMUTABLE.test(cause.message ?? '')) || IMMUTABLE.test(error.message))

// StatefulSet and Job say "updates to … are forbidden"; other kinds say "field is immutable" or "may not be changed".
const IMMUTABLE =
  /field is immutable|is immutable|updates to \S+ spec for fields other than|may not be changed|cannot be changed|may not be updated|is invalid.*immutable/i

const isNamespaceTerminating = (error: unknown): boolean =>
  hasReason(error, 'Forbidden') && error.details.causes.some((cause) => cause.reason === 'NamespaceTerminating')

const isMissingNamespace = (error: unknown): boolean => hasReason(error, 'NotFound') && error.details.kind === 'namespaces'

const DENIED = /admission webhook .* denied the request|ValidatingAdmissionPolicy .* denied request|violates PodSecurity|exceeded quota/

/** True for rejections by admission, with any HTTP status. */
export const isDenied = (error: unknown): boolean => error instanceof KubeError && DENIED.test(error.message)

function toFailureCode(error: KubeError): FailureCode {
  switch (error.reason) {
    case 'Invalid':
      return DENIED.test(error.message) ? 'denied' : isImmutable(error) ? 'immutable_field' : 'invalid'
    case 'Forbidden':
      if (isNamespaceTerminating(error)) return 'namespace'
      return DENIED.test(error.message) || !/cannot \S+ resource/.test(error.message) ? 'denied' : 'forbidden'
    case 'BadRequest':
    case 'RequestEntityTooLarge':
    case 'UnsupportedMediaType':
    case 'NotAcceptable':
    case 'MethodNotAllowed':
      return DENIED.test(error.message) ? 'denied' : 'invalid'
    case 'Unauthorized':
    case 'BadCredential':
      return 'forbidden'
    case 'NotFound':
      // A 404 with an object name means that object; one without a name means a path, so a kind that is not served.
      return isMissingNamespace(error) ? 'missing_namespace' : error.details.name === undefined ? 'missing_kind' : 'gone'
    case 'UnknownKind':
      return 'missing_kind'
    case 'AlreadyExists':
    case 'Conflict':
      return isDenied(error) ? 'denied' : 'conflict'
    case 'Gone':
    case 'Expired':
    case 'TooManyRequests':
    case 'InternalError':
    case 'ServiceUnavailable':
    case 'ServerTimeout':
    case 'Timeout':
    case 'StoreReadError':
    case 'Unknown':
    case 'Unreachable':
    case 'TimedOut':
    case 'Untrusted':
    case 'BadAnswer':
    case 'AnswerTooLarge':
    case 'DiscoveryFailed':
      return 'unavailable'
    default:
      return error.reason satisfies never
  }
}
