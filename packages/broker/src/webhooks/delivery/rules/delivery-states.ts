// Next state of a delivery after one attempt. Pure; the only retry rule.
export type AttemptResult =
  | { readonly is: 'delivered'; readonly statusCode: number }
  /** `retryAfterSeconds` is the Retry-After header of the receiver. */
  | { readonly is: 'retry'; readonly statusCode: number | null; readonly error: string; readonly retryAfterSeconds?: number | undefined }
  | { readonly is: 'permanentFailure'; readonly statusCode: number | null; readonly error: string }

export type NextState =
  | { readonly status: 'success' | 'dead'; readonly delaySeconds: null }
  | { readonly status: 'failed'; readonly delaySeconds: number }

const retryAfterSecondsMax = 3600

/** `attempts` counts the attempts before this one. */
export function nextState(attempt: AttemptResult, { attempts, maxRetries }: { attempts: number; maxRetries: number }): NextState {
  if (attempt.is === 'delivered') return { status: 'success', delaySeconds: null }
  const attemptCount = attempts + 1
  if (attempt.is === 'permanentFailure' || attemptCount >= maxRetries) return { status: 'dead', delaySeconds: null }
  const retryAfterSeconds = Math.min(attempt.retryAfterSeconds ?? 0, retryAfterSecondsMax)
  return { status: 'failed', delaySeconds: Math.max(2 ** attemptCount, retryAfterSeconds) }
}

/** Redirects are not followed; they are retried, because they may be temporary. */
export function classifyStatusCode(statusCode: number): AttemptResult['is'] {
  if (statusCode >= 200 && statusCode < 300) return 'delivered'
  const isPermanent = statusCode >= 400 && statusCode < 500 && ![408, 425, 429].includes(statusCode)
  return isPermanent ? 'permanentFailure' : 'retry'
}
