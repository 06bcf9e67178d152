// Mounts the endpoint table on the router: one route per endpoint, its checks and its writer compiled once.
import type { Socket } from 'node:net'
import type { Endpoint } from '@brokkr/contract/endpoint.ts'
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { ClientGone } from './client-gone.ts'
import { compressed, worthBytes } from './compress.ts'
import { errorAnswer } from './errors.ts'
import { Exchange } from './exchange.ts'
import { answered } from './handler.ts'
import type { Overload } from './overload.ts'
import { announcesBody } from './read-body.ts'
import { callerOf, targetOf } from './request-head.ts'
import { responseSchema } from './response-schema.ts'
import { methodsOf, routePattern, staticPaths } from './routes-table.ts'
import { type Answer, commonHeaders, sendAnswer } from './send-answer.ts'
import { type Live, liveOr503, type Route, type ServeDeps, serve } from './serve.ts'
import { createCompiler } from './validate.ts'
import { writeWithTexts } from './write-texts.ts'

export interface MountDeps {
  readonly clock: Clock
  readonly scheme: 'http' | 'https'
  readonly log: Log
  readonly overload: Overload
  /** A caller on this connection has shown a valid key. */
  readonly accepted: (socket: Socket) => void
  /** Null until the broker is live. */
  readonly live: () => Live<unknown> | null
  readonly limits: { readonly bodyMs: number; readonly handlerMs: number; readonly bodyBytes: number; readonly objectBodyBytes: number }
}

export function mountEndpoints(deps: MountDeps, app: FastifyInstance): void {
  const validatorsOf = createCompiler()
  for (const [name, endpoint] of Object.entries(endpoints) as [EndpointName, Endpoint][]) {
    const route = { name, endpoint, validators: validatorsOf(endpoint) }
    app.route({
      method: methodsOf(endpoint),
      url: routePattern(endpoint.path),
      schema: { response: responsesOf(endpoint) },
      config: { isStream: endpoint.stream === true },
      // The router takes `/agents/` for an agent without an id, and `/webhooks/event-types` for a webhook where it lacks the method;
      // to us these are other paths.
      handler: (request, reply) => (isOtherPath(request) ? reply.callNotFound() : void answerCall(deps, route, { request, reply })),
    })
  }
}

function isOtherPath({ params, raw }: FastifyRequest): boolean {
  const values = Object.values(params as Record<string, string>)
  return values.length > 0 && (values.includes('') || staticPaths.has(targetOf(raw.url ?? '/').path))
}

/** One writer per success: the usual one, and the second where an endpoint has it. */
function responsesOf({ response, other }: Endpoint): Record<string, object> {
  return {
    ...(response === undefined ? {} : { '2xx': responseSchema(response) }),
    ...(other === undefined ? {} : { [other.status]: responseSchema(other.response) }),
  }
}

interface Pair {
  readonly request: FastifyRequest
  readonly reply: FastifyReply
}

/** Never rejects: whatever happens, the call is answered once or its client is gone. */
async function answerCall(deps: MountDeps, route: Route, pair: Pair): Promise<void> {
  const exchange = exchangeOf(deps, pair)
  try {
    const write = (value: unknown) => answerFor(route, exchange, { value, reply: pair.reply })
    const answer = await serve(serveDepsOf(deps), route, { exchange, write })
    if (answer === hijacked) return
    const isSmall = answer.body.length <= worthBytes
    sendAnswer(deps, pair.reply, isSmall ? answer : await compressed(answer, pair.request.headers['accept-encoding']))
  } catch (error) {
    sendFailure(deps, route, { exchange, pair, error })
  } finally {
    exchange.end()
  }
}

function exchangeOf({ clock, limits }: MountDeps, { request, reply }: Pair): Exchange {
  const raw = request.raw
  const { path, query } = targetOf(raw.url ?? '/')
  const { requestId, clientAddress, userAgent } = callerOf(request)
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

function serveDepsOf({ clock, scheme, overload, accepted, live, limits }: MountDeps): ServeDeps {
  return { clock, scheme, overload, accepted, live: liveOr503(live()), caps: limits, bodyTimeoutMs: limits.bodyMs }
}

/** The handler has taken the socket over: there is nothing left to send. */
const hijacked: Answer = { status: 0, headers: {}, body: '' }

function answerFor({ name, endpoint }: Route, { said }: Exchange, { value, reply }: { value: unknown; reply: FastifyReply }): Answer {
  if (said.answer?.is === 'hijacked') return hijacked
  if (said.answer?.is === 'text')
    return { status: said.status ?? 200, headers: { 'content-type': said.answer.contentType, ...said.headers }, body: said.answer.text }
  if (said.answer?.is === 'empty') return { status: said.answer.status, headers: said.headers, body: '' }
  if (endpoint.text !== undefined) return textAnswer(endpoint.text, said, value)
  const isOther = endpoint.other !== undefined && said.status === endpoint.other.status
  if (endpoint.response === undefined && !isOther) return { status: endpoint.success, headers: said.headers, body: '' }
  const write = reply.getSerializationFunction(isOther ? String(said.status) : '2xx')
  if (write === undefined || value === undefined || value === answered) throw new Error(`the handler of ${name} returned no value`)
  return {
    status: said.status ?? endpoint.success,
    headers: { 'content-type': 'application/json; charset=utf-8', ...said.headers },
    body: writeWithTexts(write, value),
  }
}

const textAnswer = (type: string, { status, headers }: Exchange['said'], value: unknown): Answer => ({
  status: status ?? 200,
  headers: { 'content-type': `${type}; charset=utf-8`, ...headers },
  body: String(value),
})

function sendFailure(deps: MountDeps, route: Route, { exchange, pair, error }: { exchange: Exchange; pair: Pair; error: unknown }): void {
  const { reply, request } = pair
  const { said, requestId } = exchange
  if (error instanceof ClientGone || reply.raw.destroyed) {
    if (!reply.sent) void reply.hijack()
    return
  }
  const answer = errorAnswer(deps, error, { requestId, endpoint: routePattern(route.endpoint.path), method: request.method })
  // A stream that broke has sent its head already; all that is left is to end it.
  if (said.answer?.is === 'hijacked') reply.raw.destroy()
  else sendAnswer(deps, reply, answer)
}
