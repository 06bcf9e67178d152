// Validation of names, labels, annotations and other fields that several actions accept.
import { ApiError, type ErrorCode } from '@brokkr/contract/errors.ts'

const control = /\p{Cc}/u

/** Trimmed text of 1 to 255 characters without control characters. */
export function requireName(value: string, field: string, code: ErrorCode = 'validation_failed'): string {
  const name = value.trim()
  const problem =
    name === ''
      ? 'must not be empty'
      : name.length > 255
        ? 'must have at most 255 characters'
        : control.test(name)
          ? 'must not contain control characters'
          : null
  if (problem !== null) throw new ApiError(code, `${field} ${problem}`, { details: { errors: [{ path: field, message: problem }] } })
  return name
}

export function requireDescription(value: string | null | undefined): string | null {
  if (value === null || value === undefined) return null
  if (value.length > 4096) {
    const message = 'must have at most 4096 characters'
    throw new ApiError('validation_failed', `description ${message}`, { details: { errors: [{ path: 'description', message }] } })
  }
  return value
}

export function requireLabel(label: string): string {
  if (label === '' || label.length > 64 || /\s/u.test(label)) {
    throw new ApiError('invalid_label', 'a label has 1 to 64 characters and no whitespace', { details: { limit: 64 } })
  }
  return label
}

export function requireAnnotation(key: string, value: string): void {
  if (key === '' || key.length > 64 || /\s/u.test(key))
    throw new ApiError('invalid_annotation', 'an annotation key has 1 to 64 characters and no whitespace', { details: { limit: 64 } })
  if (value === '' || value.length > 64)
    throw new ApiError('invalid_annotation', 'an annotation value has 1 to 64 characters', { details: { limit: 64 } })
}

/** Immutable fields may be sent with the whole object but must be equal. */
export function requireUnchanged<T>(field: string, sent: T | null | undefined, current: T): void {
  if (sent === null || sent === undefined || sent === current) return
  throw new ApiError('immutable_field', `${field} cannot be changed`, { details: { field } })
}

export function requireStatus(status: string): string {
  if (status === '' || status.length > 50) {
    const message = 'has 1 to 50 characters'
    throw new ApiError('validation_failed', `status ${message}`, { details: { errors: [{ path: 'status', message }] } })
  }
  return status
}

// Names of changed fields. A request that changes nothing is neither written nor audited.
export function changedFields<T extends object>(before: { readonly [K in keyof T]: unknown }, after: T): (keyof T & string)[] {
  return (Object.keys(after) as (keyof T & string)[]).filter((field) => before[field] !== after[field])
}
