// What is read from the head of a request before anything else: its id, its target, where it came from, and whether the
// head itself keeps within bounds.
import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { ApiError } from '@brokkr/contract/error.ts'
import type { FastifyRequest } from 'fastify'
import type { Caller } from './handler.ts'

const requestIdPattern = /^[A-Za-z0-9._-]{1,128}$/

/** The caller's own id when it has the allowed form, else a new one. */
export function requestIdOf(headers: IncomingHttpHeaders): string {
  const sent = headers['x-request-id']
  return typeof sent === 'string' && requestIdPattern.test(sent) ? sent : randomUUID()
}

export interface Target {
  readonly path: string
  /** Without the question mark. */
  readonly query: string
}

/** A proxy may send the whole address; only path and query matter here. */
export function targetOf(url: string): Target {
  const local = url.startsWith('/') ? url : url.replace(/^[a-z]+:\/\/[^/?#]*/i, '')
  const fragment = local.indexOf('#')
  const beforeFragment = fragment === -1 ? local : local.slice(0, fragment)
  const mark = beforeFragment.indexOf('?')
  return mark === -1
    ? { path: beforeFragment || '/', query: '' }
    : { path: beforeFragment.slice(0, mark) || '/', query: beforeFragment.slice(mark + 1) }
}

const headersMax = 100
const targetCharsMax = 4 * 1024
/** A cursor and many scopes stand in the query of a stream. */
const streamTargetCharsMax = 16 * 1024

export function checkHead(request: IncomingMessage, isStream: boolean): void {
  const max = isStream ? streamTargetCharsMax : targetCharsMax
  if ((request.url?.length ?? 0) > max)
    throw new ApiError('uri_too_long', `path and query together are longer than ${max} bytes`, {
      details: { limit: 'request_target_bytes', max },
    })
  if (request.rawHeaders.length > 2 * headersMax)
    throw new ApiError('payload_too_large', `the request has more than ${headersMax} headers`, {
      details: { limit: 'headers', max: headersMax },
    })
}

/** Who is calling, as far as the head tells. */
export const callerOf = ({ id, ip, raw }: FastifyRequest): Caller => ({
  requestId: id,
  clientAddress: clientAddressOf(ip, raw.socket.remoteAddress),
  userAgent: userAgentOf(raw.headers),
})

/** `hop` is what the router made of X-Forwarded-For; text that is no address falls back to the peer. */
export const clientAddressOf = (hop: string, peer: string | undefined): string =>
  plainAddress(hop === peer || isIP(hop) !== 0 ? hop : (peer ?? ''))

const plainAddress = (address: string): string =>
  address.startsWith('::ffff:') && isIP(address.slice(7)) === 4 ? address.slice(7) : address

const userAgentCharsMax = 512
export const userAgentOf = (headers: IncomingHttpHeaders): string | null => headers['user-agent']?.slice(0, userAgentCharsMax) ?? null
