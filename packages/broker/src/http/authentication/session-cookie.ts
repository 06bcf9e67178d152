// The cookie of a console session. With TLS its name has the `__Host-` prefix, so that sibling domains cannot set it. Without TLS browsers
// refuse that prefix, and the broker listens on loopback only.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Principal } from '../server/handler.ts'

export interface SessionCookie {
  readonly name: string
  readonly scheme: 'http' | 'https'
  set(token: string, seconds: number): string
  readonly cleared: string
}

export function sessionCookie({ isTls }: { isTls: boolean }): SessionCookie {
  const name = isTls ? '__Host-brokkr_session' : 'brokkr_session'
  const attributes = `Path=/; HttpOnly; SameSite=Strict${isTls ? '; Secure' : ''}`
  return {
    name,
    scheme: isTls ? 'https' : 'http',
    set: (token, seconds) => `${name}=${token}; Max-Age=${Math.floor(seconds)}; ${attributes}`,
    cleared: `${name}=; Max-Age=0; ${attributes}`,
  }
}

// CSRF protection. Browsers send cookies with requests of any page, so a mutation with a session cookie must prove that the console made
// it: by an Origin equal to this host, and by a header that HTML forms cannot set.

export interface OriginRequest {
  readonly method: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

/** Pure. Returns null if the request is allowed. `scheme`: by which browsers reach this broker. */
export function checkOrigin(principal: Principal, { method, headers }: OriginRequest, scheme: 'http' | 'https'): ApiError | null {
  if (method === 'GET' || method === 'HEAD') return null
  const { origin, host } = headers
  const isOwn = typeof host === 'string' && host !== '' && origin === `${scheme}://${host}`
  // A page of another origin must not sign a browser in with a link of its own. Programs send no Origin.
  if (principal.kind === 'link')
    return isOwn || origin === undefined
      ? null
      : new ApiError('origin_refused', 'a sign-in link is exchanged by the console of this broker')
  if (principal.session === null) return null
  if (isOwn && headers['x-brokkr-console'] === '1') return null
  return new ApiError('origin_refused', 'mutations with a session must come from the console; programs use a PAK')
}
