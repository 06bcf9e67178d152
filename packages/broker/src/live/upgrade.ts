// Opens sockets: authenticates the handshake, checks who may open it, and answers a refused handshake like any other request.
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { AuditEntry } from '../audit/record.ts'
import type { ResourceLookups } from '../auth/check-permit.ts'
import type { Authenticator } from '../http/authentication/authenticate.ts'
import { findClientAddress, type ProxyMatcher, toActor } from '../http/request/actor.ts'
import { getUserAgent, parseTarget, readRequestId } from '../http/request/request-head.ts'
import { toErrorResponse } from '../http/response/errors.ts'
import type { Caller, Principal } from '../http/server/handler.ts'
import { findDenial, parseSocketPath, readProtocolPak, type SocketPath } from './rules.ts'

export interface UpgradeDeps {
  readonly authenticator: Authenticator
  readonly lookups: Pick<ResourceLookups, 'stack'>
  readonly recordAudit: (entry: AuditEntry) => void
  readonly log: Log
  readonly scheme: 'http' | 'https'
  readonly isProxy: ProxyMatcher
  /** Null while sockets may be opened. */
  readonly getRefusal: () => ApiError | null
}
export interface Handshake {
  readonly path: SocketPath
  readonly principal: Principal
  readonly caller: Caller
  readonly credential: HeldCredential
}

/** The credential of a handshake and then of its socket. Revocation is noticed from authentication on. */
export interface HeldCredential {
  readonly isRevoked: boolean
  /** Called when the credential is revoked. */
  onRevoked: () => void
  release(): void
}

function holdCredential(authenticator: Authenticator, principal: Principal): HeldCredential {
  const state = { isRevoked: false, onRevoked: () => undefined as void }
  const release = authenticator.hold(principal, () => {
    state.isRevoked = true
    state.onRevoked()
  })
  return Object.assign(state, { release })
}

/** The checked handshake, whose credential the caller releases; throws the error that refuses it. */
export async function checkHandshake(deps: UpgradeDeps, request: IncomingMessage): Promise<Handshake> {
  const refusal = deps.getRefusal()
  if (refusal !== null) throw refusal
  const target = parseTarget(request.url ?? '/')
  const path = parseSocketPath(target.path)
  if (path === null) throw new ApiError('route_not_found', 'no such socket')
  const caller = toSocketCaller(request, deps.isProxy)
  const principal = await deps.authenticator.authenticate({
    ...caller,
    ...target,
    headers: withProtocolPak(path, request.headers),
    renews: false,
  })
  const credential = holdCredential(deps.authenticator, principal)
  try {
    await checkCaller(deps, { path, principal, caller }, request)
    return { path, principal, caller, credential }
  } catch (error) {
    credential.release()
    throw error
  }
}

async function checkCaller(
  deps: UpgradeDeps,
  { path, principal, caller }: Pick<Handshake, 'path' | 'principal' | 'caller'>,
  request: IncomingMessage,
): Promise<void> {
  if (path.is === 'stack' && !isUuid(path.stackId)) throw new ApiError('invalid_path_parameter', 'the stack id is not a UUID')
  const owner = path.is === 'stack' && principal.kind === 'generator' ? await findOwner(deps.lookups, path.stackId) : null
  const code = isForeignPage(deps.scheme, principal, request.headers) ? 'origin_refused' : findDenial(path, principal, owner)
  if (code === null) return
  const details = { endpoint: `${path.is}_socket`, path: parseTarget(request.url ?? '/').path, code }
  deps.recordAudit({
    actor: toActor({ principal, ...caller }),
    action: 'auth.denied',
    resource: { type: 'system', id: null },
    details,
  })
  throw new ApiError(code, 'this credential may not open this socket')
}

const toSocketCaller = (request: IncomingMessage, isProxy: ProxyMatcher): Caller => ({
  requestId: readRequestId(request.headers),
  clientAddress: findClientAddress(
    request.socket.remoteAddress ?? '',
    [request.headers['x-forwarded-for'] ?? []].flat().join(','),
    isProxy,
  ),
  userAgent: getUserAgent(request.headers),
})

const isUuid = (text: string): boolean => /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)

async function findOwner(lookups: Pick<ResourceLookups, 'stack'>, stackId: string): Promise<string | null> {
  const stack = await lookups.stack(stackId)
  return stack === null || stack.isDeleted === true ? null : stack.generatorId
}

function withProtocolPak(path: SocketPath, headers: IncomingMessage['headers']): IncomingMessage['headers'] {
  if (path.is === 'agent' || headers.authorization !== undefined) return headers
  const pak = readProtocolPak(headers['sec-websocket-protocol'])
  return pak === null ? headers : { ...headers, authorization: `Bearer ${pak}` }
}

/** Browsers send cookies with handshakes of any page, so a session needs the origin of this host. */
function isForeignPage(scheme: string, principal: Principal, { origin, host }: IncomingMessage['headers']): boolean {
  return principal.session !== null && (host === undefined || origin !== `${scheme}://${host}`)
}

/** Answers a refused handshake and closes the connection. */
export function refuseHandshake(deps: { log: Log }, socket: Duplex, error: unknown, request: IncomingMessage): void {
  const context = { requestId: readRequestId(request.headers), endpoint: 'socket', method: 'GET' }
  const { status, headers, body } = toErrorResponse(deps, error, context)
  const lines = Object.entries({ ...headers, connection: 'close', 'content-length': Buffer.byteLength(body) })
  const head = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  socket.end(`HTTP/1.1 ${status} ${statusTexts[status] ?? 'Refused'}\r\n${head}\r\n${body}`)
}

const statusTexts: Readonly<Record<number, string>> = {
  400: 'Bad Request',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'Not Found',
  429: 'Too Many Requests',
  503: 'Service Unavailable',
}
