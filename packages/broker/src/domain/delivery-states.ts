// How a delivery goes on after one try. Pure: the only rule of retries.
export type Tried =
  | { readonly is: 'delivered'; readonly statusCode: number }
  /** `retryAfterSeconds`: what the receiver asked for. */
  | { readonly is: 'again'; readonly statusCode: number | null; readonly error: string; readonly retryAfterSeconds?: number | undefined }
  | { readonly is: 'hopeless'; readonly statusCode: number | null; readonly error: string }

export type NextState =
  | { readonly status: 'success' | 'dead'; readonly delaySeconds: null }
  | { readonly status: 'failed'; readonly delaySeconds: number }

const retryAfterSecondsMax = 3600

/** `attempts`: those before this one. */
export function nextState(tried: Tried, { attempts, maxRetries }: { attempts: number; maxRetries: number }): NextState {
  if (tried.is === 'delivered') return { status: 'success', delaySeconds: null }
  const made = attempts + 1
  if (tried.is === 'hopeless' || made >= maxRetries) return { status: 'dead', delaySeconds: null }
  const asked = Math.min(tried.retryAfterSeconds ?? 0, retryAfterSecondsMax)
  return { status: 'failed', delaySeconds: Math.max(2 ** made, asked) }
}

/** What an answer's status means. Redirects are never followed, and may end. */
export function meaningOf(statusCode: number): Tried['is'] {
  if (statusCode >= 200 && statusCode < 300) return 'delivered'
  const isLost = statusCode >= 400 && statusCode < 500 && ![408, 425, 429].includes(statusCode)
  return isLost ? 'hopeless' : 'again'
}
