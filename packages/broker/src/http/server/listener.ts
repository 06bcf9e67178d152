// Creates the HTTP server with its router: limits on headers, time and connections. Bodies are not read here but by each request,
// after it was authorized.

import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify'
import { parseSocketPath } from '../../live/rules.ts'
import { parseTarget, readRequestId } from '../request/request-head.ts'
import { readTlsFiles, type TlsFiles } from './tls-files.ts'

export interface ListenerOptions {
  readonly headerMs: number
  readonly bodyMs: number
  readonly handlerMs: number
  readonly keepAliveMs: number
  readonly connectionsMax: number
  /** Addresses and ranges of proxies whose X-Forwarded-For is trusted. */
  readonly trustedProxies: readonly string[]
  readonly tls: TlsFiles | null
}

const headBytesMax = 32 * 1024

export function createApp(options: ListenerOptions, onBadPath: (request: FastifyRequest, reply: FastifyReply) => void): FastifyInstance {
  const { headerMs, bodyMs, handlerMs, tls } = options
  const head = {
    maxHeaderSize: headBytesMax,
    headersTimeout: headerMs,
    connectionsCheckingInterval: Math.min(1_000, headerMs / 4),
    shouldUpgradeCallback: isSocketHandshake,
  }
  const app = fastify({
    logger: false,
    trustProxy: options.trustedProxies.length === 0 ? false : [...options.trustedProxies],
    requestIdHeader: false,
    genReqId: (request) => readRequestId(request.headers),
    exposeHeadRoutes: false,
    return503OnClosing: false,
    keepAliveTimeout: options.keepAliveMs,
    // Only a last resort: the limits on body and handler time expire first and send a response.
    requestTimeout: headerMs + bodyMs + handlerMs,
    ...(tls === null ? { http: head } : { https: { ...head, ...readTlsFiles(tls), minVersion: 'TLSv1.2', handshakeTimeout: headerMs } }),
    routerOptions: { ignoreTrailingSlash: false, ignoreDuplicateSlashes: false, caseSensitive: true, maxParamLength: headBytesMax },
    frameworkErrors: (_, request, reply) => onBadPath(request, reply),
    clientErrorHandler: answerBrokenHead,
  })
  // Otherwise the router would reject content types before the request is authenticated.
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'QUERY'])
    app.addHttpMethod(method, { hasBody: false, overrideExisting: true })
  app.server.maxConnections = options.connectionsMax
  return app
}

/** Other requests with an Upgrade header are answered over HTTP. */
function isSocketHandshake({ url, headers }: IncomingMessage): boolean {
  return headers.upgrade?.toLowerCase() === 'websocket' && parseSocketPath(parseTarget(url ?? '/').path) !== null
}

/** The parser rejected the request (two lengths, conflicting framing, no end of headers): sends a bare status and closes the connection. */
function answerBrokenHead(error: Error & { code?: string }, socket: Socket): void {
  if (error.code === 'ECONNRESET' || !socket.writable) {
    socket.destroy()
    return
  }
  const status = brokenHeads[error.code ?? ''] ?? '400 Bad Request'
  socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
}

const brokenHeads: Readonly<Record<string, string>> = {
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: '413 Payload Too Large',
}
