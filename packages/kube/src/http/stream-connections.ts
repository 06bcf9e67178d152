// Connections of lists and watches, by Node's HTTP client: their responses are read while they arrive, and there are few of them. Requests
// with a whole response use request-pool.ts.
import { type ClientRequest, Agent as HttpAgent, request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { Socket } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import { type CoalescingSocket, createCoalescingConnector } from './coalescing-socket.ts'
import type { StreamedBody } from './streamed-body.ts'

export interface StreamRequest {
  origin: string
  path: string
  method: string
  headers: Record<string, string | string[]>
}

/** Writes the response to the body; closing the body aborts the request. */
export interface StreamConnections {
  list(call: StreamRequest, body: StreamedBody): void
  watch(call: StreamRequest, body: StreamedBody): void
  /** Closes idle connections; requests in flight complete. */
  close(): void
  destroy(): void
}

const CONNECT_TIMEOUT_MS = 10_000
/** Shorter than the API server's idle limit of 90 s, so that a request rarely meets a connection that the server is closing. */
const IDLE_MS = 30_000

export function createStreamConnections(server: string, tls: ConnectionOptions): StreamConnections {
  const address = new URL(server)
  const isSecure = address.protocol === 'https:'
  const keepAliveOptions = { keepAlive: true, keepAliveMsecs: 15_000, timeout: IDLE_MS }
  const agent = isSecure ? new HttpsAgent({ ...keepAliveOptions, ...tls }) : new HttpAgent(keepAliveOptions)
  const connectCalmly = createCoalescingConnector(tls)
  const ask = ({ origin, path, method, headers }: StreamRequest, connection: RequestOptions): ClientRequest =>
    (isSecure ? httpsRequest : httpRequest)(origin + path, { method, headers, ...connection })
  return {
    list(call, body) {
      const request = ask(call, { agent })
      request.once('socket', (socket) => boundConnecting(socket, isSecure))
      answerInto(body, request, (reason) => void request.destroy(reason))
    },
    // A watch lasts for minutes, so the cost of its own connection does not matter.
    watch(call, body) {
      let calm: CoalescingSocket | undefined
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

function answerInto(body: StreamedBody, request: ClientRequest, abort: (reason: Error) => void): void {
  let answer: IncomingMessage | undefined
  const flow = { abort, pause: () => void answer?.pause(), resume: () => void answer?.resume() }
  const fail = (error: Error): void => body.onResponseError(flow, error)
  request.on('error', fail)
  request.once('response', (response) => {
    answer = response
    body.onResponseStart(flow, response.statusCode ?? 0, response.headers)
    response.on('data', (bytes: Buffer) => body.onResponseData(flow, bytes))
    response.once('end', () => body.onResponseEnd())
    // Also emitted when the connection closes within the response.
    response.on('error', fail)
  })
  body.onRequestStart(flow)
  request.end()
}
