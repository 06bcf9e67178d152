// Mounts the endpoint table on the router: one route per endpoint, with validators and response writers that are compiled once.
import type { Socket } from 'node:net'
import type { Endpoint } from '@brokkr/contract/endpoint.ts'
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { RequestTracer } from '../../tracing/request-tracer.ts'
import { Exchange } from '../request/exchange.ts'
import { announcesBody, ClientGone } from '../request/read-body.ts'
import { parseTarget, toCaller } from '../request/request-head.ts'
import { createCompiler } from '../request/validate.ts'
import { compressBytesMin, compressed } from '../response/compress.ts'
import { toErrorResponse } from '../response/errors.ts'
import { writeWithManifests } from '../response/manifests.ts'
import { responseSchema } from '../response/response-schema.ts'
import { sendPages } from '../response/send-pages.ts'
import { commonHeaders, type HttpResponse, sendResponse } from '../response/send-response.ts'
import { answered } from './handler.ts'
import type { Overload } from './overload.ts'
import { listMethods, routePattern, staticPaths } from './route-methods.ts'
import { type Route, requireServing, type ServeDeps, type ServingContext, serve } from './serve.ts'

export interface MountDeps {
  readonly clock: Clock
  readonly scheme: 'http' | 'https'
  readonly log: Log
  readonly overload: Overload
  /** A request on this connection was authenticated. */
  readonly accepted: (socket: Socket) => void
  /** Null until the broker serves requests. */
  readonly serving: () => ServingContext<unknown> | null
  readonly limits: { readonly bodyMs: number; readonly handlerMs: number; readonly bodyBytes: number; readonly objectBodyBytes: number }
  readonly stallMs: number
  /** Null: requests are not traced. */
  readonly tracer: RequestTracer | null
}

export function mountEndpoints(deps: MountDeps, app: FastifyInstance): void {
  const validatorsOf = createCompiler()
  for (const [name, endpoint] of Object.entries(endpoints) as [EndpointName, Endpoint][]) {
    const route = { name, endpoint, validators: validatorsOf(endpoint) }
    app.route({
      method: listMethods(endpoint),
      url: routePattern(endpoint.path),
      schema: { response: toResponseSchemas(endpoint) },
      config: { isStream: endpoint.stream === true },
      // The router matches `/agents/` as an agent with an empty id, and `/webhooks/event-types` as a webhook if that path lacks the
      // method. Both are other paths here.
      handler: (request, reply) => (isOtherPath(request) ? reply.callNotFound() : void answerCall(deps, route, { request, reply })),
    })
  }
}

function isOtherPath({ params, raw }: FastifyRequest): boolean {
  const values = Object.values(params as Record<string, string>)
  return values.length > 0 && (values.includes('') || staticPaths.has(parseTarget(raw.url ?? '/').path))
}

/** One writer per success status. */
function toResponseSchemas({ response, other }: Endpoint): Record<string, object> {
  return {
    ...(response === undefined ? {} : { '2xx': responseSchema(response) }),
    ...(other === undefined ? {} : { [other.status]: responseSchema(other.response) }),
  }
}

interface Pair {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
}

/** Never rejects: the request gets one response, or its client has disconnected. */
async function answerCall(deps: MountDeps, route: Route, pair: Pair): Promise<void> {
  const exchange = createExchange(deps, pair)
  if (deps.tracer !== null) traceCall(deps.tracer, route, { exchange, pair })
  try {
    const write = (value: unknown) => buildResponse(route, exchange, { value, reply: pair.reply })
    const answer = await serve(toServeDeps(deps), route, { exchange, write })
    if (answer === hijacked) return
    if (answer.pages !== undefined) return await answerInPages(deps, { answer, pages: answer.pages }, { exchange, pair })
    const isSmall = answer.body.length <= compressBytesMin
    sendResponse(deps, pair.reply, isSmall ? answer : await compressed(answer, pair.request.headers['accept-encoding']))
  } catch (error) {
    sendFailure(deps, route, { exchange, pair, error })
  } finally {
    exchange.end()
  }
}

/** The span ends when the response was sent or the client disconnected. */
function traceCall(tracer: RequestTracer, { endpoint }: Route, { exchange, pair }: { exchange: Exchange; pair: Pair }): void {
  const { request, reply } = pair
  const header = request.headers['traceparent']
  const span = tracer.start({
    method: request.method,
    route: routePattern(endpoint.path),
    requestId: exchange.requestId,
    traceparent: typeof header === 'string' ? header : undefined,
  })
  if (span !== null) reply.raw.once('close', () => span.end(reply.raw.statusCode))
}

interface Paged {
  readonly answer: HttpResponse
  readonly pages: AsyncIterable<string | Buffer>
}

/** After the response head was sent, an error can only cut the connection; the reason is logged. */
async function answerInPages(deps: MountDeps, { answer, pages }: Paged, { exchange, pair }: { exchange: Exchange; pair: Pair }) {
  const iterator = pages[Symbol.asyncIterator]()
  const first = await exchange.race(iterator.next())
  exchange.end()
  const { request, reply } = pair
  void reply.hijack()
  const headers = { ...commonHeaders(request), ...answer.headers }
  const sent = { status: answer.status, headers, first, pages: iterator, acceptEncoding: request.headers['accept-encoding'] }
  await sendPages(deps, reply.raw, sent).catch((error: unknown) => {
    if (isPrematureClose(error)) return
    deps.log.error('paged response failed', { request_id: exchange.requestId, endpoint: exchange.path, error: error as Error })
  })
}

const isPrematureClose = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE'

function createExchange({ clock, limits }: MountDeps, { request, reply }: Pair): Exchange {
  const raw = request.raw
  const { path, query } = parseTarget(raw.url ?? '/')
  const { requestId, clientAddress, userAgent } = toCaller(request)
  return new Exchange(
    { clock },
    {
      request: raw,
      response: reply.raw,
      path,
      query,
      rawParams: request.params as Record<string, string>,
      requestId,
      clientAddress,
      userAgent,
      timeoutMs: limits.handlerMs + (announcesBody(raw) ? limits.bodyMs : 0),
      hijack: () => {
        for (const [name, value] of Object.entries(commonHeaders(request))) if (!reply.raw.hasHeader(name)) reply.raw.setHeader(name, value)
        void reply.hijack()
      },
    },
  )
}

function toServeDeps({ clock, scheme, overload, accepted, serving, limits }: MountDeps): ServeDeps {
  return { clock, scheme, overload, accepted, serving: requireServing(serving()), caps: limits, bodyTimeoutMs: limits.bodyMs }
}

/** The handler has taken over the socket. */
const hijacked: HttpResponse = { status: 0, headers: {}, body: '' }

function buildResponse(
  { name, endpoint }: Route,
  { overrides }: Exchange,
  { value, reply }: { value: unknown; reply: FastifyReply },
): HttpResponse {
  if (overrides.answer?.is === 'hijacked') return hijacked
  if (overrides.answer?.is === 'text')
    return {
      status: overrides.status ?? 200,
      headers: { 'content-type': overrides.answer.contentType, ...overrides.headers },
      body: overrides.answer.text,
    }
  if (overrides.answer?.is === 'empty') return { status: overrides.answer.status, headers: overrides.headers, body: '' }
  if (endpoint.text !== undefined) return buildTextResponse(endpoint.text, overrides, value)
  const isOther = endpoint.other !== undefined && overrides.status === endpoint.other.status
  if (endpoint.response === undefined && !isOther) return { status: endpoint.success, headers: overrides.headers, body: '' }
  const write = reply.getSerializationFunction(isOther ? String(overrides.status) : '2xx')
  if (write !== undefined && overrides.answer?.is === 'pages')
    return {
      status: endpoint.success,
      headers: { ...json, ...overrides.headers },
      body: '',
      pages: writePages(write, overrides.answer.pages),
    }
  if (write === undefined || value === undefined || value === answered) throw new Error(`the handler of ${name} returned no value`)
  return {
    status: overrides.status ?? endpoint.success,
    headers: { ...json, ...overrides.headers },
    body: writeWithManifests(write, value),
  }
}

const json = { 'content-type': 'application/json; charset=utf-8' }

async function* writePages(
  write: Parameters<typeof writeWithManifests>[0],
  pages: AsyncIterable<readonly object[]>,
): AsyncGenerator<string | Buffer> {
  for await (const page of pages) yield writeWithManifests(write, page)
}

const buildTextResponse = (type: string, { status, headers }: Exchange['overrides'], value: unknown): HttpResponse => ({
  status: status ?? 200,
  headers: { 'content-type': `${type}; charset=utf-8`, ...headers },
  body: String(value),
})

function sendFailure(deps: MountDeps, route: Route, { exchange, pair, error }: { exchange: Exchange; pair: Pair; error: unknown }): void {
  const { reply, request } = pair
  const { overrides, requestId } = exchange
  if (error instanceof ClientGone || reply.raw.destroyed) {
    if (!reply.sent) void reply.hijack()
    return
  }
  const answer = toErrorResponse(deps, error, { requestId, endpoint: routePattern(route.endpoint.path), method: request.method })
  // A stream that failed has already sent its head; it can only be ended.
  if (overrides.answer?.is === 'hijacked') reply.raw.destroy()
  else sendResponse(deps, reply, answer)
}
