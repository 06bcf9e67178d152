// Puts an answer on the wire. When the caller is still sending a body that nobody will read, the answer goes out whole
// first, then a little of the rest is discarded, then the connection is closed: a reset would swallow the answer.
import type { IncomingMessage } from 'node:http'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { FastifyReply } from 'fastify'
import { announcesBody } from './read-body.ts'

export interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Buffer
}

export function sendAnswer(deps: { clock: Clock }, reply: FastifyReply, answer: Answer): void {
  const headers = withVary(reply, answer.headers)
  if (isStillSent(reply.request.raw, answer.status)) sendAndLinger(deps, reply, { ...answer, headers })
  else
    void reply
      .code(answer.status)
      .headers(headers)
      .send(answer.body.length === 0 ? undefined : answer.body)
}

/** What an answer depends on may have been said before it was made; both must be told. */
function withVary(reply: FastifyReply, headers: Answer['headers']): Answer['headers'] {
  const said = reply.raw.getHeader('vary')
  return said === undefined || headers['vary'] === undefined ? headers : { ...headers, vary: `${String(said)}, ${headers['vary']}` }
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
