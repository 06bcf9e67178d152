// Sends a response with the common headers. If the client still sends a body that will not be read, the whole response is sent first, then
// a little of the body is discarded, then the connection is closed: a reset could discard the response.
import type { IncomingMessage } from 'node:http'
import { pipeline, Readable } from 'node:stream'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { announcesBody } from '../request/read-body.ts'
import { parseTarget } from '../request/request-head.ts'
import { isApiPath } from '../server/not-found.ts'
import { disconnectUnreadClient, type StallDeps, sliceBytes, slicesOf } from './stalled-response.ts'

export interface HttpResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Buffer
  /** Instead of `body`: a list in pages, each a JSON array. */
  readonly pages?: AsyncIterable<string | Buffer>
}

export function sendResponse(deps: StallDeps, reply: FastifyReply, answer: HttpResponse): void {
  const headers = commonHeaders(reply.request)
  Object.assign(headers, answer.headers)
  // `vary` may have been set before; both values must be sent.
  const varyHeader = reply.raw.getHeader('vary')
  if (varyHeader !== undefined && headers['vary'] !== undefined) headers['vary'] = `${String(varyHeader)}, ${headers['vary']}`
  if (isStillSent(reply.request.raw, answer.status)) sendAndLinger(deps, reply, { ...answer, headers })
  else sendAtOnce(reply, { ...answer, headers })
  disconnectUnreadClient(deps, reply.raw)
}

/** Headers of every response. */
export function commonHeaders({ id, raw }: FastifyRequest): Record<string, string> {
  const headers: Record<string, string> = { 'x-request-id': id, 'x-content-type-options': 'nosniff' }
  if (isApiPath(parseTarget(raw.url ?? '/').path)) headers['cache-control'] = 'no-store'
  return headers
}

/** A text of this length is encoded here, because Node would first join it to the head and copy it twice. */
const largeText = 16 * 1024

/** Bypasses the router's reply, which would process each header three times. */
function sendAtOnce(
  reply: FastifyReply,
  { status, headers, body: given }: HttpResponse & { readonly headers: Record<string, string> },
): void {
  const body = typeof given === 'string' && given.length > largeText ? Buffer.from(given) : given
  const isEmpty = body.length === 0
  const hasLength = !isEmpty || (status !== 204 && status !== 304 && reply.request.method !== 'HEAD')
  if (hasLength) headers['content-length'] = String(Buffer.byteLength(body))
  void reply.hijack()
  reply.raw.writeHead(status, headers)
  if (isEmpty) reply.raw.end()
  else if (typeof body === 'string' || body.length <= sliceBytes) reply.raw.end(body)
  // Fails if the client disconnected, which the response reports itself.
  else pipeline(Readable.from(slicesOf(body)), reply.raw, () => undefined)
}

const smallBytes = 64 * 1024

/** A small body may be discarded while the connection is kept; a too long or slow one may not. */
function isStillSent(request: IncomingMessage, status: number): boolean {
  if (request.complete || !announcesBody(request)) return false
  return status === 413 || status >= 500 || !(Number(request.headers['content-length']) <= smallBytes)
}

const lingerMs = 1_000
const lingerBytesMax = 4 * 1024 * 1024

function sendAndLinger({ clock }: { clock: Clock }, reply: FastifyReply, answer: HttpResponse): void {
  const response = reply.raw
  void reply.hijack()
  response.writeHead(answer.status, { ...answer.headers, 'content-length': Buffer.byteLength(answer.body), connection: 'close' })
  if (answer.body.length === 0) response.flushHeaders()
  else response.write(answer.body)
  const done = () => {
    timer.cancel()
    response.end()
  }
  const timer = clock.setTimer(lingerMs, done)
  discard(reply.request.raw, done)
}

function discard(request: IncomingMessage, done: () => void): void {
  let bytes = 0
  request.on('data', (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes > lingerBytesMax) done()
  })
  request.once('end', done).once('close', done).resume()
}
