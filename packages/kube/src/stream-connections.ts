// The connections of lists and watches, by Node's own HTTP client: their answers are read as they come, and there are few of them. Calls
// with a whole answer each have connections of their own (call-connections.ts).
import { type ClientRequest, Agent as HttpAgent, request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { Socket } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import type { Body } from './body.ts'
import { type CalmSocket, calmConnector } from './calm-socket.ts'

export interface StreamCall {
  origin: string
  path: string
  method: string
  headers: Record<string, string | string[]>
}

/** The answer goes to the body, which may also end the call. */
export interface StreamConnections {
  list(call: StreamCall, body: Body): void
  watch(call: StreamCall, body: Body): void
  /** Keeps no connection for later; calls that are under way go on to their end. */
  close(): void
  destroy(): void
}

const CONNECT_TIMEOUT_MS = 10_000
/** Below the API server's own idle limit of 90 s, so that we rarely meet a connection that it is closing. */
const IDLE_MS = 30_000

export function createStreamConnections(server: string, tls: ConnectionOptions): StreamConnections {
  const address = new URL(server)
  const isSecure = address.protocol === 'https:'
  const kept = { keepAlive: true, keepAliveMsecs: 15_000, timeout: IDLE_MS }
  const agent = isSecure ? new HttpsAgent({ ...kept, ...tls }) : new HttpAgent(kept)
  const connectCalmly = calmConnector(tls)
  const ask = ({ origin, path, method, headers }: StreamCall, connection: RequestOptions): ClientRequest =>
    (isSecure ? httpsRequest : httpRequest)(origin + path, { method, headers, ...connection })
  return {
    list(call, body) {
      const request = ask(call, { agent })
      request.once('socket', (socket) => boundConnecting(socket, isSecure))
      answerInto(body, request, (reason) => void request.destroy(reason))
    },
    // A watch lasts for minutes: a connection of its own costs it nothing.
    watch(call, body) {
      let calm: CalmSocket | undefined
      const createConnection: RequestOptions['createConnection'] = (_options, done) => {
        calm = connectCalmly(address, done as Parameters<typeof connectCalmly>[1])
        return undefined
      }
      const request = ask(call, { createConnection })
      answerInto(body, request, (reason) => {
        request.destroy(reason)
        calm?.destroy(reason)
      })
    },
    close() {
      agent.maxFreeSockets = 0
      for (const sockets of Object.values(agent.freeSockets)) for (const socket of sockets ?? []) socket.destroy()
    },
    destroy: () => agent.destroy(),
  }
}

function boundConnecting(socket: Socket, isSecure: boolean): void {
  if (!socket.connecting) return
  const timer = setTimeout(() => {
    socket.destroy(Object.assign(new Error(`no connection within ${CONNECT_TIMEOUT_MS} ms`), { code: 'ETIMEDOUT' }))
  }, CONNECT_TIMEOUT_MS)
  const settle = (): void => clearTimeout(timer)
  socket.once(isSecure ? 'secureConnect' : 'connect', settle)
  socket.once('close', settle)
}

function answerInto(body: Body, request: ClientRequest, abort: (reason: Error) => void): void {
  let answer: IncomingMessage | undefined
  const flow = { abort, pause: () => void answer?.pause(), resume: () => void answer?.resume() }
  const fail = (error: Error): void => body.onResponseError(flow, error)
  request.on('error', fail)
  request.once('response', (response) => {
    answer = response
    body.onResponseStart(flow, response.statusCode ?? 0, response.headers)
    response.on('data', (bytes: Buffer) => body.onResponseData(flow, bytes))
    response.once('end', () => body.onResponseEnd())
    // One that breaks off ends in this way as well.
    response.on('error', fail)
  })
  body.onRequestStart(flow)
  request.end()
}
