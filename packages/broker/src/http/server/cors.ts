// CORS headers. Only the configured origins may call, by default none. Credentials (cookies) are never allowed: a page of another
// origin must send a PAK.
export interface CorsSettings {
  readonly allowed_origins: readonly string[]
  readonly allowed_methods: readonly string[]
  readonly allowed_headers: readonly string[]
  readonly max_age_seconds: number
}

export interface CorsRequest {
  readonly method: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

/** Pure. Returns no headers if no origin is configured. */
export function corsHeaders(settings: CorsSettings, { method, headers }: CorsRequest): Record<string, string> {
  const { allowed_origins: allowed } = settings
  if (allowed.length === 0) return {}
  const { origin } = headers
  // Caches must keep responses to different origins apart, also those without an origin.
  const vary = allowed.includes('*') ? {} : { vary: 'origin' }
  if (typeof origin !== 'string' || !(allowed.includes('*') || allowed.includes(origin))) return vary
  const isPreflight = method === 'OPTIONS' && headers['access-control-request-method'] !== undefined
  return {
    ...vary,
    'access-control-allow-origin': allowed.includes('*') ? '*' : origin,
    ...(isPreflight ? preflight(settings) : { 'access-control-expose-headers': exposed }),
  }
}

const preflight = (settings: CorsSettings): Record<string, string> => ({
  'access-control-allow-methods': settings.allowed_methods.join(', '),
  'access-control-allow-headers': settings.allowed_headers.join(', '),
  'access-control-max-age': String(Math.floor(settings.max_age_seconds)),
})

/** Response headers that pages of other origins may read. */
const exposed = [
  'ETag',
  'Idempotency-Replayed',
  'Link',
  'Retry-After',
  'X-Brokkr-Count',
  'X-Brokkr-Cursor',
  'X-Brokkr-Digest',
  'X-Brokkr-History',
  'X-Next-Cursor',
  'X-Request-Id',
  'X-Truncated',
].join(', ')
