// What happens to every request whoever serves it: an id, common headers, a measure; and what is answered when no route
// takes it or a route fails outside its own care.
import { ApiError } from '@brokkr/contract/error.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { type CorsSettings, corsHeaders } from './cors.ts'
import { errorAnswer } from './errors.ts'
import { answerUnrouted, type PageHandler } from './not-found.ts'
import { callerOf, checkHead, targetOf } from './request-head.ts'
import { createRequestMetrics } from './request-metrics.ts'
import { createMethodsOfPath } from './routes-table.ts'
import { commonHeaders, sendAnswer } from './send-answer.ts'
import { type Live, liveOr503 } from './serve.ts'

interface EdgeDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly page: PageHandler
}

/** Id, headers and measure of every answer, whoever gives it; heads out of bounds end here. */
export function prepareEveryRequest(deps: EdgeDeps & { cors: () => CorsSettings | null }, app: FastifyInstance): void {
  const measure = createRequestMetrics(deps)
  app.addHook('onRequest', (request, reply, proceed) => {
    const { url: pattern, config } = request.routeOptions
    const isStream = 'isStream' in config && config.isStream === true
    measure(reply.raw, { pattern: request.is404 ? null : (pattern ?? null), method: request.method, isStream })
    // Calls bring them with their answer; what is set here besides is merged, header by header.
    if (!('isStream' in config)) for (const [name, value] of Object.entries(commonHeaders(request))) reply.raw.setHeader(name, value)
    const cors = deps.cors()
    if (cors !== null) for (const [name, value] of Object.entries(corsHeaders(cors, request))) reply.raw.setHeader(name, value)
    try {
      checkHead(request.raw, isStream)
    } catch (error) {
      return sendError(deps, error, { request, reply })
    }
    proceed()
  })
}

function sendError(deps: EdgeDeps, error: unknown, { request, reply }: { request: FastifyRequest; reply: FastifyReply }): void {
  sendAnswer(
    deps,
    reply,
    errorAnswer(deps, error, { requestId: request.id, endpoint: request.routeOptions?.url ?? 'unmatched', method: request.method }),
  )
}

/** The router could not decode the path; no hook has run yet. */
export function refuseBadPath(deps: EdgeDeps, request: FastifyRequest, reply: FastifyReply): void {
  sendError(deps, new ApiError('invalid_path_parameter', 'the path holds a broken escape'), { request, reply })
}

export function answerTheRest(deps: EdgeDeps & { live: () => Live<unknown> | null }, app: FastifyInstance): void {
  const methodsOfPath = createMethodsOfPath()
  app.setNotFoundHandler(async (request, reply) => {
    const target = targetOf(request.raw.url ?? '/')
    const authenticate = async () => {
      await liveOr503(deps.live()).authenticator.authenticate({ ...callerOf(request), ...target, headers: request.headers, renews: false })
    }
    try {
      const unrouted = { method: request.method, path: target.path }
      sendAnswer(deps, reply, await answerUnrouted({ methodsOfPath, page: deps.page, authenticate }, unrouted))
    } catch (error) {
      sendError(deps, error, { request, reply })
    }
    return reply
  })
  app.setErrorHandler((error, request, reply) => sendError(deps, error, { request, reply }))
}
