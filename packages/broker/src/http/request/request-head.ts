// Reads the head of a request first: its id, target and client address, and whether it is within its limits.
import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { FastifyRequest } from 'fastify'
import type { Caller } from '../server/handler.ts'
import { plainAddress } from './actor.ts'

const requestIdPattern = /^[A-Za-z0-9._-]{1,128}$/

/** The client's own id if its form is valid, else a new one. */
export function readRequestId(headers: IncomingHttpHeaders): string {
  const sent = headers['x-request-id']
  return typeof sent === 'string' && requestIdPattern.test(sent) ? sent : randomUUID()
}

export interface Target {
  readonly path: string
  /** Without the question mark. */
  readonly query: string
}

/** A proxy may send an absolute URL; only path and query are used. */
export function parseTarget(url: string): Target {
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
/** Streams and watches have a longer limit, for a cursor and many scopes in the query. */
const streamTargetCharsMax = 16 * 1024

export function requireHeadLimits(request: IncomingMessage, isStream: boolean): void {
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

/** Address, user agent and request id of the caller. */
export const toCaller = ({ id, ip, raw }: FastifyRequest): Caller => ({
  requestId: id,
  clientAddress: getClientAddress(ip, raw.socket.remoteAddress),
  userAgent: getUserAgent(raw.headers),
})

/** `hop` is the router's reading of X-Forwarded-For; if it is not an address, the peer address is used. */
export const getClientAddress = (hop: string, peer: string | undefined): string =>
  plainAddress(hop === peer || isIP(hop) !== 0 ? hop : (peer ?? ''))

const userAgentCharsMax = 512
export const getUserAgent = (headers: IncomingHttpHeaders): string | null => headers['user-agent']?.slice(0, userAgentCharsMax) ?? null
