// One call from credential to answer, in one function: authenticate → permit → parse → handle. Each step returns or throws,
// nothing is called "next", and what was refused never reaches the step behind it.
import { type Endpoint, issuesSecret } from '@brokkr/contract/endpoint.ts'
import type { EndpointName } from '@brokkr/contract/endpoints.ts'
import { ApiError, type ErrorCode } from '@brokkr/contract/error.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Authenticator } from './auth.ts'
import { asManifestFault, type BodyCaps, capOf, parseBody } from './body.ts'
import { checkPermit, type PermitRequest, type Things } from './check-permit.ts'
import type { Exchange } from './exchange.ts'
import type { Caller, Handlers, Principal, RequestContext } from './handler.ts'
import { bodyHashOf, type Idempotency, idempotencyKeyOf, scopeOf } from './idempotency.ts'
import { maskAnswer, readsMasked } from './mask-answer.ts'
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
  /** Left out: keys of calls are not looked at. */
  readonly idempotency?: Idempotency
}
export interface Denied extends Caller {
  readonly principal: Principal
  readonly endpoint: EndpointName
  readonly path: string
  readonly code: ErrorCode
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
  readonly live: Live<unknown>
  readonly caps: BodyCaps
  readonly bodyTimeoutMs: number
}

/** The answer `write` makes of the handler's value and of what it said beside that. */
export async function serve(
  deps: ServeDeps,
  route: Route,
  { exchange, write }: { exchange: Exchange; write: (value: unknown) => Answer },
): Promise<Answer> {
  const { live } = deps
  const renews = route.endpoint.stream !== true
  const principal = await exchange.race(live.authenticator.authenticate({ ...authRequestOf(exchange), renews }))
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
  // A credential that dies while its body still arrives opens nothing any more.
  const release = live.authenticator.hold(principal, () => exchange.fail(new ApiError('unauthorized', 'the key was revoked')))
  try {
    await exchange.race(checkPermit({ things: live.things, onDenied }, wanted))
    await exchange.race(body())
  } finally {
    release()
  }
  const input = { params: params(), query: query(), body: await body() }
  const respond = async (overrides: object | null): Promise<Answer> => {
    const value = await handle(live, route.name, { overrides, request: { ...input, ...contextOf(exchange, principal) } })
    return write(readsMasked(principal) ? maskAnswer(exchange.said, value) : value)
  }
  const key = idempotencyKeyOf(route.endpoint.method, exchange.request.headers)
  if (key === null || live.idempotency === undefined) return exchange.race(respond(null))
  const caller = { kind: principal.kind, id: principal.id, isMasked: readsMasked(principal) }
  const call = {
    scope: scopeOf(caller, route.endpoint.method, exchange.path),
    key,
    bodyHash: bodyHashOf(exchange.query, input.body),
    issuesSecret: issuesSecret(route.endpoint),
  }
  return exchange.race(live.idempotency.run(call, respond))
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

function contextOf(exchange: Exchange, principal: Principal): RequestContext {
  const { requestId, clientAddress, userAgent, path, query: search, reply, signal, request } = exchange
  return { principal, requestId, clientAddress, userAgent, path, search, headers: flat(request.headers), reply, signal }
}

const flat = (headers: NodeJS.Dict<string | string[]>): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, Array.isArray(value) ? value.join(', ') : value]))

function authRequestOf({ requestId, clientAddress, userAgent, path, query, request }: Exchange) {
  return { requestId, clientAddress, userAgent, path, query, headers: request.headers }
}

function deniedOf({ requestId, clientAddress, userAgent, path }: Exchange, { principal, name }: PermitRequest, code: ErrorCode): Denied {
  return { requestId, clientAddress, userAgent, principal, endpoint: name, path, code }
}
