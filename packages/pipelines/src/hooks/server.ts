// The HTTP server of hooks: bounded connections, bodies and times; one answer per request, whatever fails.
import { createServer, type IncomingMessage, type ServerOptions, type ServerResponse } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { hasReason } from '@brokkr/kube'
import { toError } from '@brokkr/runtime/errors.ts'
import { closeServer, listenOn } from '@brokkr/runtime/http-listen.ts'
import { type HookAnswer, type HookRequest, Refusal } from './answer.ts'
import type { HooksContext, HooksDeps, HooksSettings } from './deps.ts'
import { NonceStore } from './nonces.ts'
import { clientOf, RateLimit } from './rate-limit.ts'
import { findRoute, isLimited } from './routes.ts'

export interface HooksServer {
  readonly port: number
  close(): Promise<void>
}

const BODY_BYTES_MAX = 1024 * 1024
const CONNECTIONS_MAX = 512
const CLOSE_MS = 2_000
const limits: ServerOptions = {
  headersTimeout: 10_000,
  requestTimeout: 10_000,
  keepAliveTimeout: 5_000,
  maxHeaderSize: 32 * 1024,
  connectionsCheckingInterval: 5_000,
}

export async function startHooks(deps: HooksDeps, settings: HooksSettings): Promise<HooksServer> {
  const context: HooksContext = { ...deps, settings, nonces: new NonceStore({ ...deps, namespace: settings.namespace }) }
  const rates = new RateLimit(deps.clock, settings.rateLimit)
  const requests = deps.metrics.counter('hook_requests_total', 'Requests to hooks by route and status', ['route', 'code'])
  const stopping = new AbortController()
  const listener = (request: IncomingMessage, response: ServerResponse) =>
    void answer(context, rates, request, response, stopping.signal).then(({ route, status }) =>
      requests.inc({ route, code: String(status) }),
    )
  const server = settings.tls === null ? createServer(limits, listener) : createTlsServer({ ...limits, ...settings.tls }, listener)
  server.maxConnections = CONNECTIONS_MAX
  await listenOn(server, { name: 'hooks', host: settings.host, port: settings.port })
  return {
    port: (server.address() as AddressInfo).port,
    close: () => {
      // Requests that wait for an outcome are answered with 202.
      stopping.abort(new Error('the program ends'))
      return closeServer(server, CLOSE_MS)
    },
  }
}

/** Never rejects. */
async function answer(
  context: HooksContext,
  rates: RateLimit,
  request: IncomingMessage,
  response: ServerResponse,
  stopping: AbortSignal,
): Promise<{ route: string; status: number }> {
  const gone = new AbortController()
  response.once('close', () => gone.abort(new Error('the client is gone')))
  const signal = AbortSignal.any([gone.signal, stopping])
  let route = 'none'
  try {
    const target = request.url ?? ''
    const [path = '', ...query] = target.split('?')
    limitRate(context, rates, request, path)
    const found = findRoute(request.method ?? '', path)
    route = found.name
    const hook: HookRequest = {
      method: request.method ?? '',
      target,
      headers: request.headers,
      body: await readBody(request),
      query: new URLSearchParams(query.join('?')),
      connection: { remoteAddress: request.socket.remoteAddress ?? '', isEncrypted: context.settings.tls !== null },
      signal,
    }
    return { route, status: send(request, response, await found.handle(context, hook, found.parts)) }
  } catch (error) {
    return { route, status: send(request, response, toErrorAnswer(context, error, route)) }
  }
}

function limitRate({ settings }: HooksContext, rates: RateLimit, request: IncomingMessage, path: string): void {
  if (!isLimited(path)) return
  const waitMs = rates.count(clientOf(request.socket.remoteAddress ?? '', request.headers, settings.trustedProxies))
  if (waitMs === null) return
  throw new Refusal(429, 'too many requests', { headers: { 'retry-after': String(Math.max(1, Math.ceil(waitMs / 1000))) } })
}

/** The connection stays usable for the answer when the body is too large. */
function readBody(request: IncomingMessage): Promise<Buffer> {
  const { promise, resolve, reject } = Promise.withResolvers<Buffer>()
  const chunks: Buffer[] = []
  let bytes = 0
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes <= BODY_BYTES_MAX) chunks.push(chunk)
    else {
      request.pause()
      reject(new Refusal(413, `the body is larger than ${BODY_BYTES_MAX} bytes`))
    }
  })
  request.once('end', () => resolve(Buffer.concat(chunks)))
  request.once('error', (error) => reject(new Refusal(400, `the body cannot be read: ${error.message}`)))
  return promise
}

function toErrorAnswer({ log }: HooksContext, error: unknown, route: string): HookAnswer {
  if (error instanceof Refusal) return error.answer
  if (hasReason(error, 'Conflict')) return { status: 409, body: 'the object changed meanwhile: try again\n' }
  log.warn('hook failed', { route, error: toError(error) })
  return { status: 500, body: 'the request failed; the reason is in the log of the controller\n' }
}

function send(request: IncomingMessage, response: ServerResponse, { status, headers = {}, body }: HookAnswer): number {
  if (response.destroyed || response.headersSent) return status
  const isText = typeof body === 'string'
  const content = body === undefined ? '' : isText ? body : `${JSON.stringify(body)}\n`
  response.writeHead(status, {
    ...headers,
    ...(body === undefined ? {} : { 'content-type': isText ? 'text/plain; charset=utf-8' : 'application/json; charset=utf-8' }),
    ...(status === 204 ? {} : { 'content-length': String(Buffer.byteLength(content)) }),
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
    // What is left of the body is not read.
    ...(request.complete ? {} : { connection: 'close' }),
  })
  response.end(content)
  return status
}
