// A cookie is sent by the browser whoever's page makes the call, so a change by cookie must prove that our own page made it:
// an Origin that is this very host, and a header no foreign form can set.
import { ApiError } from '@brokkr/contract/error.ts'
import type { Principal } from './handler.ts'

export interface OriginRequest {
  readonly method: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
}

/** Pure: null when the call may go on. `scheme` is the one browsers reach this broker by. */
export function refuseForeignOrigin(principal: Principal, { method, headers }: OriginRequest, scheme: 'http' | 'https'): ApiError | null {
  if (principal.session === null || method === 'GET' || method === 'HEAD') return null
  const { origin, host } = headers
  const isOwn = typeof host === 'string' && host !== '' && origin === `${scheme}://${host}`
  if (isOwn && headers['x-brokkr-console'] === '1') return null
  return new ApiError('origin_refused', 'a change by session comes from the console itself: programs use a key')
}
