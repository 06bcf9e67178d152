// Puts an answer on the wire, with the headers that every answer has. When the caller is still sending a body that nobody will read, the answer goes out whole
// first, then a little of the rest is discarded, then the connection is closed: a reset would swallow the answer.
import type { IncomingMessage } from 'node:http'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { isApiPath } from './not-found.ts'
import { announcesBody } from './read-body.ts'
import { targetOf } from './request-head.ts'

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Buffer
}

export function sendAnswer(deps: { clock: Clock }, reply: FastifyReply, answer: Answer): void {
  const headers = commonHeaders(reply.request)
  Object.assign(headers, answer.headers)
  // What an answer depends on may have been said before it was made; both must be told.
  const said = reply.raw.getHeader('vary')
  if (said !== undefined && headers['vary'] !== undefined) headers['vary'] = `${String(said)}, ${headers['vary']}`
  if (isStillSent(reply.request.raw, answer.status)) sendAndLinger(deps, reply, { ...answer, headers })
  else sendAtOnce(reply, { ...answer, headers })
}

/** Of every answer, whoever gives it. */
export function commonHeaders({ id, raw }: FastifyRequest): Record<string, string> {
  const headers: Record<string, string> = { 'x-request-id': id, 'x-content-type-options': 'nosniff' }
  if (isApiPath(targetOf(raw.url ?? '/').path)) headers['cache-control'] = 'no-store'
  return headers
}

/** A text of this length is encoded here, once: Node would join it to the head first, and so copy it twice more. */
const largeText = 16 * 1024

/** Past the router's own way, which would look at each header three times. */
function sendAtOnce(reply: FastifyReply, { status, headers, body: given }: Answer & { readonly headers: Record<string, string> }): void {
  const body = typeof given === 'string' && given.length > largeText ? Buffer.from(given) : given
  const isEmpty = body.length === 0
  const hasLength = !isEmpty || (status !== 204 && status !== 304 && reply.request.method !== 'HEAD')
  if (hasLength) headers['content-length'] = String(Buffer.byteLength(body))
  void reply.hijack()
  reply.raw.writeHead(status, headers)
  if (isEmpty) reply.raw.end()
  else reply.raw.end(body)
}

const smallBytes = 64 * 1024

/** A small body may arrive and be dropped while the connection is kept; one that was too long or too slow may not. */
function isStillSent(request: IncomingMessage, status: number): boolean {
  if (request.complete || !announcesBody(request)) return false
  return status === 413 || status >= 500 || !(Number(request.headers['content-length']) <= smallBytes)
}

const lingerMs = 1_000
const lingerBytesMax = 4 * 1024 * 1024

function sendAndLinger({ clock }: { clock: Clock }, reply: FastifyReply, answer: Answer): void {
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
