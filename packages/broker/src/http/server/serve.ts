// Serves one request: authenticate → authorize → parse → handle. Each step returns or throws; a refused request does not reach the
// next step.
import type { Socket } from 'node:net'
import { type Endpoint, issuesSecret } from '@brokkr/contract/endpoint.ts'
import type { EndpointName } from '@brokkr/contract/endpoints.ts'
import { ApiError, type ErrorCode } from '@brokkr/contract/errors.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { checkPermit, type PermitRequest, type ResourceLookups } from '../../auth/check-permit.ts'
import type { Authenticator, AuthRequest } from '../authentication/authenticate.ts'
import { checkOrigin } from '../authentication/session-cookie.ts'
import { type BodyCaps, decodeBody, getBodyCap, hashBody, receiveBody, toManifestError, toSubmission } from '../request/body.ts'
import type { Exchange } from '../request/exchange.ts'
import { type Idempotency, readIdempotencyKey, toKeyScope } from '../request/idempotency.ts'
import { getPreparedManifest, largeBodyBytes, type ReadLargeBody } from '../request/large-body.ts'
import type { Validators } from '../request/validate.ts'
import { type MaskManifest, maskManifests, readsMasked } from '../response/manifests.ts'
import type { HttpResponse } from '../response/send-response.ts'
import type { Caller, Handlers, Principal, RequestContext } from './handler.ts'
import type { Overload } from './overload.ts'

/** Available once the database is connected. */
export interface ServingContext<Deps> {
  readonly deps: Deps
  readonly handlers: Handlers<Deps>
  readonly authenticator: Authenticator
  readonly lookups: ResourceLookups
  readonly onDenied: (denied: DeniedCall) => void
  readonly maskManifest: MaskManifest
  /** If absent, bodies of all sizes are parsed on the event loop. */
  readonly readLargeBody?: ReadLargeBody
  /** If absent, Idempotency-Key headers are ignored. */
  readonly idempotency?: Idempotency
}
export interface DeniedCall extends Caller {
  readonly principal: Principal
  readonly endpoint: EndpointName
  readonly path: string
  readonly code: ErrorCode
}

/** Rejects requests before the database is connected; clients retry. */
export function requireServing(serving: ServingContext<unknown> | null): ServingContext<unknown> {
  if (serving === null) throw new ApiError('overloaded', 'the broker is starting; try again', { retryAfterSeconds: 1 })
  return serving
}

export interface Route {
  readonly name: EndpointName
  readonly endpoint: Endpoint
  readonly validators: Validators
}
export interface ServeDeps {
  readonly clock: Clock
  /** Scheme by which browsers reach this broker. */
  readonly scheme: 'http' | 'https'
  readonly overload: Overload
  /** A request on this connection was authenticated. */
  readonly accepted: (socket: Socket) => void
  readonly serving: ServingContext<unknown>
  readonly caps: BodyCaps
  readonly bodyTimeoutMs: number
}

export interface RequestInProgress {
  readonly exchange: Exchange
  readonly write: (value: unknown) => HttpResponse
}

/** Resolves with the response that `write` builds from the handler's result; rejects as soon as the exchange fails. */
export const serve = (deps: ServeDeps, route: Route, served: RequestInProgress): Promise<HttpResponse> =>
  served.exchange.race(serveSteps(deps, route, served))

/** A request that was answered meanwhile (timeout, disconnect, revocation) ends at its next step. */
async function serveSteps(deps: ServeDeps, route: Route, { exchange, write }: RequestInProgress): Promise<HttpResponse> {
  const { serving } = deps
  const isStream = route.endpoint.stream === true
  deps.overload.checkDoor({ isStream })
  const params = once(() => route.validators.params(exchange.rawParams) ?? {})
  const query = once(() => route.validators.query(exchange.query))
  const { credential } = route.endpoint
  let needsType = credential === 'link'
  const body = once(() => readBody(deps, route, { exchange, query, needsType }))
  const authRequest = toAuthRequest(exchange, {
    renews: !isStream,
    credential,
    ...(credential === 'link' ? { linkToken: await readLinkToken(body) } : {}),
  })
  exchange.throwIfFailed()
  const principal = await serving.authenticator.authenticate(authRequest)
  exchange.throwIfFailed()
  deps.accepted(exchange.request.socket)
  deps.overload.checkCaller({ credential: `${principal.kind} ${principal.id}`, isWrite: route.endpoint.method !== 'GET', isStream })
  needsType ||= principal.session !== null
  const permitRequest = { name: route.name, principal, rawParams: exchange.rawParams, params, query, body }
  const onDenied = (_: PermitRequest, code: ErrorCode) => serving.onDenied(toDeniedCall(exchange, permitRequest, code))
  const originError = checkOrigin(principal, { method: route.endpoint.method, headers: exchange.request.headers }, deps.scheme)
  if (originError !== null) {
    onDenied(permitRequest, originError.code)
    throw originError
  }
  // A credential revoked while the body arrives ends the request. Streams check revocation themselves once they are open.
  const release = serving.authenticator.hold(principal, () => {
    if (exchange.overrides.answer?.is !== 'hijacked') exchange.fail(new ApiError('unauthorized', 'the key was revoked'))
  })
  let found: unknown
  try {
    found = await checkPermit({ lookups: serving.lookups, onDenied }, permitRequest)
    exchange.throwIfFailed()
    if (route.endpoint.body !== undefined) await body()
    exchange.throwIfFailed()
  } catch (error) {
    release()
    throw error
  }
  if (!isStream) release()
  const input = { params: params(), query: query(), body: route.endpoint.body === undefined ? undefined : await body() }
  const request = new Context(exchange, { principal, found }, input)
  const respond = async (overrides: object | null): Promise<HttpResponse> => {
    const value = await handle(serving, route.name, { overrides, request }).catch((error: unknown) => {
      // Denials that only the action can detect are recorded like any other.
      if (error instanceof ApiError && error.status === 403) onDenied(permitRequest, error.code)
      // A join token or sign-in link that was used meanwhile is rejected like an unknown one.
      if (error instanceof ApiError && error.code === 'unauthorized' && credential !== undefined)
        throw serving.authenticator.refuse(authRequest)
      throw error
    })
    if (exchange.overrides.denied !== null) onDenied(permitRequest, exchange.overrides.denied)
    return write(readsMasked(principal) ? await maskManifests(serving.maskManifest, exchange.overrides, value) : value)
  }
  const key = readIdempotencyKey(route.endpoint.method, exchange.request.headers)
  if (isStream) return respond(null).finally(release)
  const { idempotency } = serving
  if (key === null || idempotency === undefined) return deps.overload.track(() => respond(null))
  const caller = { kind: principal.kind, id: principal.id, isMasked: readsMasked(principal) }
  const call = {
    scope: toKeyScope(caller, route.endpoint.method, exchange.path),
    key,
    bodyHash: getPreparedManifest(input.body)?.hash ?? hashBody(exchange.query, input.body),
    issuesSecret: issuesSecret(route.endpoint),
    callsNetwork: networkActions.has(route.name),
  }
  return deps.overload.track(() => idempotency.run(call, respond))
}

const once = <T>(make: () => T): (() => T) => {
  let result: { value: T } | null = null
  return () => (result ??= { value: make() }).value
}

/** The token of a sign-in link, which is in the body because proxies log URLs and headers. A body that cannot be read is a wrong
 *  credential: the caller learns no more than that. */
async function readLinkToken(body: () => Promise<unknown>): Promise<string> {
  try {
    const value = await body()
    return typeof value === 'object' && value !== null && 'token' in value && typeof value.token === 'string' ? value.token : ''
  } catch (error) {
    if (isFault(error) || (error instanceof ApiError && error.status === 413)) return ''
    throw error
  }
}

/** Actions that call other hosts: they never run inside a transaction. */
const networkActions: ReadonlySet<EndpointName> = new Set([
  'testWebhook',
  'startRun',
  'decidePromotion',
  'retryPromotion',
  'abortPromotion',
  'previewFlow',
])

/** Endpoints with an optional body: unreadable content counts as absent. */
const lenientBodies: ReadonlySet<EndpointName> = new Set(['recordHeartbeat'])

async function readBody(
  deps: ServeDeps,
  { name, endpoint, validators }: Route,
  { exchange, query, needsType }: { exchange: Exchange; query: () => unknown; needsType: boolean },
): Promise<unknown> {
  if (endpoint.body === undefined) return undefined
  query() // A wrong query is told before a body is waited for.
  const kind = endpoint.bodyKind ?? 'json'
  try {
    const received = await receiveBody(deps, exchange.request, {
      kind,
      needsType,
      timeoutMs: deps.bodyTimeoutMs,
      ...getBodyCap(endpoint, deps.caps),
    })
    const isDeletionMarker = isMarked(query())
    const { readLargeBody } = deps.serving
    if (kind !== 'manifest' || readLargeBody === undefined || received.bytes.length <= largeBodyBytes)
      return validators.body(toSubmission(decodeBody(received, kind), isDeletionMarker))
    const hashedQuery = exchange.request.headers['idempotency-key'] === undefined ? null : exchange.query
    return await readLargeBody({ ...received, isDeletionMarker, hashedQuery })
  } catch (error) {
    if (lenientBodies.has(name) && isFault(error)) return validators.body({})
    throw kind === 'manifest' ? toManifestError(error) : error
  }
}

const isMarked = (query: unknown): boolean =>
  typeof query === 'object' && query !== null && 'deletion_marker' in query && query.deletion_marker === true

/** Whether the error is about the content of the body; size and time limits still apply. */
const isFault = (error: unknown): boolean =>
  error instanceof Error && 'status' in error && typeof error.status === 'number' && error.status < 500 && error.status !== 413

/** Async, so that a handler that throws synchronously rejects too. */
async function handle(
  serving: ServingContext<unknown>,
  name: EndpointName,
  { overrides, request }: { overrides: object | null; request: object },
): Promise<unknown> {
  const handler = serving.handlers[name] as (deps: unknown, request: object) => Promise<unknown>
  return handler(overrides === null ? serving.deps : { ...(serving.deps as object), ...overrides }, request)
}

interface ParsedInput {
  readonly params: unknown
  readonly query: unknown
  readonly body: unknown
}

/** Headers and signal are created on first use: most requests need neither. */
class Context implements RequestContext {
  readonly params: unknown
  readonly query: unknown
  readonly body: unknown
  readonly principal: Principal
  readonly found: unknown
  readonly requestId: string
  readonly clientAddress: string
  readonly userAgent: string | null
  readonly path: string
  readonly search: string
  readonly reply: RequestContext['reply']
  readonly #exchange: Exchange

  constructor(exchange: Exchange, { principal, found }: Pick<RequestContext, 'principal' | 'found'>, input: ParsedInput) {
    this.params = input.params
    this.query = input.query
    this.body = input.body
    this.principal = principal
    this.found = found
    this.requestId = exchange.requestId
    this.clientAddress = exchange.clientAddress
    this.userAgent = exchange.userAgent
    this.path = exchange.path
    this.search = exchange.query
    this.reply = exchange.reply
    this.#exchange = exchange
  }

  get headers(): RequestContext['headers'] {
    return flat(this.#exchange.request.headers)
  }

  get signal(): AbortSignal {
    return this.#exchange.signal
  }
}

function flat(headers: NodeJS.Dict<string | string[]>): Record<string, string | undefined> {
  const flattened: Record<string, string | undefined> = {}
  for (const name in headers) {
    const value = headers[name]
    flattened[name] = Array.isArray(value) ? value.join(', ') : value
  }
  return flattened
}

function toAuthRequest(
  { requestId, clientAddress, userAgent, path, query, request }: Exchange,
  asks: Pick<AuthRequest, 'renews' | 'credential' | 'linkToken'>,
) {
  return { requestId, clientAddress, userAgent, path, query, headers: request.headers, ...asks }
}

function toDeniedCall(
  { requestId, clientAddress, userAgent, path }: Exchange,
  { principal, name }: PermitRequest,
  code: ErrorCode,
): DeniedCall {
  return { requestId, clientAddress, userAgent, principal, endpoint: name, path, code }
}
