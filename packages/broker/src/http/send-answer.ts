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
  const request = reply.request.raw
  if (request.complete || !announcesBody(request)) void reply.code(answer.status).headers(answer.headers).send(answer.body)
  else sendAndLinger(deps, reply, answer)
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
