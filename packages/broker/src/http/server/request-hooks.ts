// Hooks for every request: request id, common headers, metrics, and the responses for unmatched routes and errors outside a route.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { parseTarget, requireHeadLimits, toCaller } from '../request/request-head.ts'
import { toErrorResponse } from '../response/errors.ts'
import { commonHeaders, sendResponse } from '../response/send-response.ts'
import { disconnectStalledClient } from '../response/stalled-response.ts'
import { type CorsSettings, corsHeaders } from './cors.ts'
import { type PageHandler, respondUnrouted } from './not-found.ts'
import { createRequestMetrics } from './request-metrics.ts'
import { createMethodsOfPath } from './route-methods.ts'
import { requireServing, type ServingContext } from './serve.ts'

interface EdgeDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  readonly page: PageHandler
  readonly stallMs: number
}

/** Sets request id and headers, measures the request, and rejects headers beyond their limits. */
export function prepareEveryRequest(deps: EdgeDeps & { cors: () => CorsSettings | null }, app: FastifyInstance): void {
  const measure = createRequestMetrics(deps)
  app.addHook('onRequest', (request, reply, proceed) => {
    const { url: pattern, config } = request.routeOptions
    const isStream = 'isStream' in config && config.isStream === true
    measure(reply.raw, { pattern: request.is404 ? null : (pattern ?? null), method: request.method, isStream })
    // API requests send these with their response; headers set here are merged.
    if (!('isStream' in config)) for (const [name, value] of Object.entries(commonHeaders(request))) reply.raw.setHeader(name, value)
    const cors = deps.cors()
    if (cors !== null) for (const [name, value] of Object.entries(corsHeaders(cors, request))) reply.raw.setHeader(name, value)
    try {
      requireHeadLimits(request.raw, isStream)
    } catch (error) {
      return sendError(deps, error, { request, reply })
    }
    proceed()
  })
  // Only for responses sent by the router; API requests send their own.
  app.addHook('onSend', (_, reply, __, proceed) => {
    disconnectStalledClient(deps, reply.raw)
    proceed()
  })
}

function sendError(deps: EdgeDeps, error: unknown, { request, reply }: { request: FastifyRequest; reply: FastifyReply }): void {
  sendResponse(
    deps,
    reply,
    toErrorResponse(deps, error, { requestId: request.id, endpoint: request.routeOptions?.url ?? 'unmatched', method: request.method }),
  )
}

/** The router could not decode the path; no hook has run yet. */
export function rejectBadPath(deps: EdgeDeps, request: FastifyRequest, reply: FastifyReply): void {
  sendError(deps, new ApiError('invalid_path_parameter', 'the path contains an invalid percent escape'), { request, reply })
}

export function respondOutsideRoutes(deps: EdgeDeps & { serving: () => ServingContext<unknown> | null }, app: FastifyInstance): void {
  const methodsOfPath = createMethodsOfPath()
  app.setNotFoundHandler(async (request, reply) => {
    const target = parseTarget(request.raw.url ?? '/')
    const authenticate = async () => {
      await requireServing(deps.serving()).authenticator.authenticate({
        ...toCaller(request),
        ...target,
        headers: request.headers,
        renews: false,
      })
    }
    try {
      const unrouted = { method: request.method, path: target.path, acceptEncoding: request.headers['accept-encoding'] }
      sendResponse(deps, reply, await respondUnrouted({ methodsOfPath, page: deps.page, authenticate }, unrouted))
    } catch (error) {
      sendError(deps, error, { request, reply })
    }
    return reply
  })
  app.setErrorHandler((error, request, reply) => sendError(deps, error, { request, reply }))
}
