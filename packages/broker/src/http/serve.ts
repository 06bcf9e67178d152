// One call from credential to answer, in one function: authenticate → permit → parse → handle. Each step returns or throws,
// nothing is called "next", and what was refused never reaches the step behind it.
import type { Socket } from 'node:net'
import { type Endpoint, issuesSecret } from '@brokkr/contract/endpoint.ts'
import type { EndpointName } from '@brokkr/contract/endpoints.ts'
import { ApiError, type ErrorCode } from '@brokkr/contract/error.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Authenticator, AuthRequest } from './auth.ts'
import { asManifestFault, type BodyCaps, capOf, parseBody } from './body.ts'
import { checkPermit, type PermitRequest, type Things } from './check-permit.ts'
import type { Exchange } from './exchange.ts'
import type { Caller, Handlers, Principal, RequestContext } from './handler.ts'
import { bodyHashOf, type Idempotency, idempotencyKeyOf, scopeOf } from './idempotency.ts'
import { type MaskManifest, maskAnswer, readsMasked } from './mask-answer.ts'
import type { Overload } from './overload.ts'
import { refuseForeignOrigin } from './same-origin.ts'
import type { Answer } from './send-answer.ts'
import type { Validators } from './validate.ts'

/** What the broker can do once its database is there. */
export interface Live<Deps> {
  readonly deps: Deps
  readonly handlers: Handlers<Deps>
  readonly authenticator: Authenticator
  readonly things: Things
  readonly onDenied: (denied: Denied) => void
  readonly maskManifest: MaskManifest
  /** Left out: keys of calls are not looked at. */
  readonly idempotency?: Idempotency
}
export interface Denied extends Caller {
  readonly principal: Principal
  readonly endpoint: EndpointName
  readonly path: string
  readonly code: ErrorCode
}

/** A call that comes before the database is told to come back. */
export function liveOr503(live: Live<unknown> | null): Live<unknown> {
  if (live === null) throw new ApiError('overloaded', 'the broker is starting; try again', { retryAfterSeconds: 1 })
  return live
}

export interface Route {
  readonly name: EndpointName
  readonly endpoint: Endpoint
  readonly validators: Validators
}
export interface ServeDeps {
  readonly clock: Clock
  /** By which browsers reach this broker. */
  readonly scheme: 'http' | 'https'
  readonly overload: Overload
  /** A caller on this connection has shown a valid key. */
  readonly accepted: (socket: Socket) => void
  readonly live: Live<unknown>
  readonly caps: BodyCaps
  readonly bodyTimeoutMs: number
}

export interface Served {
  readonly exchange: Exchange
  readonly write: (value: unknown) => Answer
}

/** The answer `write` makes of the handler's value and of what it said beside that; or the failure of the exchange, whatever is waited for. */
export const serve = (deps: ServeDeps, route: Route, served: Served): Promise<Answer> =>
  served.exchange.race(serveSteps(deps, route, served))

/** A call that was answered meanwhile (too slow, client gone, key revoked) ends at its next step. */
async function serveSteps(deps: ServeDeps, route: Route, { exchange, write }: Served): Promise<Answer> {
  const { live } = deps
  const isStream = route.endpoint.stream === true
  deps.overload.checkDoor({ isStream })
  const asked = authRequestOf(exchange, { renews: !isStream, credential: route.endpoint.credential })
  const principal = await live.authenticator.authenticate(asked)
  exchange.throwIfFailed()
  deps.accepted(exchange.request.socket)
  deps.overload.checkCaller({ credential: `${principal.kind} ${principal.id}`, isWrite: route.endpoint.method !== 'GET', isStream })
  const params = once(() => route.validators.params(exchange.rawParams) ?? {})
  const query = once(() => route.validators.query(exchange.query))
  const body = once(() => readBody(deps, route, { exchange, query, needsType: principal.session !== null }))
  const wanted = { name: route.name, principal, rawParams: exchange.rawParams, params, query, body }
  const onDenied = (_: PermitRequest, code: ErrorCode) => live.onDenied(deniedOf(exchange, wanted, code))
  const foreign = refuseForeignOrigin(principal, { method: route.endpoint.method, headers: exchange.request.headers }, deps.scheme)
  if (foreign !== null) {
    onDenied(wanted, foreign.code)
    throw foreign
  }
  // A credential that dies while its body still arrives opens nothing any more, and no stream until the stream knows itself.
  const release = live.authenticator.hold(principal, () => {
    if (exchange.said.answer?.is !== 'hijacked') exchange.fail(new ApiError('unauthorized', 'the key was revoked'))
  })
  let found: unknown
  try {
    found = await checkPermit({ things: live.things, onDenied }, wanted)
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
  const respond = async (overrides: object | null): Promise<Answer> => {
    const value = await handle(live, route.name, { overrides, request }).catch((error: unknown) => {
      // What only the operation itself can tell is a denial like any other.
      if (error instanceof ApiError && error.status === 403) onDenied(wanted, error.code)
      // A join token that was used up meanwhile is refused like one that nobody knows.
      if (error instanceof ApiError && error.code === 'unauthorized' && principal.kind === 'invite') throw live.authenticator.refuse(asked)
      throw error
    })
    if (exchange.said.denied !== null) onDenied(wanted, exchange.said.denied)
    return write(readsMasked(principal) ? await maskAnswer(live.maskManifest, exchange.said, value) : value)
  }
  const key = idempotencyKeyOf(route.endpoint.method, exchange.request.headers)
  if (isStream) return respond(null).finally(release)
  if (key === null || live.idempotency === undefined) return respond(null)
  const caller = { kind: principal.kind, id: principal.id, isMasked: readsMasked(principal) }
  const call = {
    scope: scopeOf(caller, route.endpoint.method, exchange.path),
    key,
    bodyHash: bodyHashOf(exchange.query, input.body),
    issuesSecret: issuesSecret(route.endpoint),
  }
  return live.idempotency.run(call, respond)
}

const once = <T>(make: () => T): (() => T) => {
  let made: { value: T } | null = null
  return () => (made ??= { value: make() }).value
}

/** Whose body is a hint: what cannot be read there counts as not sent. */
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
    const parsed = await parseBody(deps, exchange.request, {
      kind,
      needsType,
      timeoutMs: deps.bodyTimeoutMs,
      ...capOf(endpoint, deps.caps),
    })
    return validators.body(parsed.form === 'json' ? parsed.value : manifestOf(parsed.text, query()))
  } catch (error) {
    if (lenientBodies.has(name) && isFault(error)) return validators.body({})
    throw kind === 'manifest' ? asManifestFault(error) : error
  }
}

/** Raw YAML has no room for the marker; the query says it. */
function manifestOf(text: string, query: unknown): unknown {
  const isMarker = typeof query === 'object' && query !== null && 'deletion_marker' in query && query.deletion_marker === true
  return { yaml_content: text, is_deletion_marker: isMarker }
}

/** A fault of what the body says; its size and its slowness are told all the same. */
const isFault = (error: unknown): boolean =>
  error instanceof Error && 'status' in error && typeof error.status === 'number' && error.status < 500 && error.status !== 413

/** Async, so that a handler that throws at once is like one that rejects. */
async function handle(
  live: Live<unknown>,
  name: EndpointName,
  { overrides, request }: { overrides: object | null; request: object },
): Promise<unknown> {
  const handler = live.handlers[name] as (deps: unknown, request: object) => Promise<unknown>
  return handler(overrides === null ? live.deps : { ...(live.deps as object), ...overrides }, request)
}

interface ParsedInput {
  readonly params: unknown
  readonly query: unknown
  readonly body: unknown
}

/** Headers and signal are made when somebody asks: most calls look at neither. */
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

function authRequestOf(
  { requestId, clientAddress, userAgent, path, query, request }: Exchange,
  asks: Pick<AuthRequest, 'renews' | 'credential'>,
) {
  return { requestId, clientAddress, userAgent, path, query, headers: request.headers, ...asks }
}

function deniedOf({ requestId, clientAddress, userAgent, path }: Exchange, { principal, name }: PermitRequest, code: ErrorCode): Denied {
  return { requestId, clientAddress, userAgent, principal, endpoint: name, path, code }
}
