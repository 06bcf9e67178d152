// The connections of lists, by Node's own HTTP client. undici's parser is WebAssembly: its first answer starts the optimising compiler,
// which takes 40 ms of CPU where a list, the server that writes it and its decoder want every core there is. For many small calls undici
// is the faster one by far.
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { Socket } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import type { Body, Flow } from './body.ts'

export interface ListCall {
  origin: string
  path: string
  method: string
  headers: Record<string, string | string[]>
}

export interface ListConnections {
  dispatch(call: ListCall, body: Body): void
  /** Takes no new calls; those under way go on to their end. */
  close(): void
  destroy(): void
}

const CONNECT_TIMEOUT_MS = 10_000
/** Below the API server's own idle limit of 90 s, so that we rarely meet a connection that it is closing. */
const IDLE_MS = 30_000

export function createListConnections(server: string, tls: ConnectionOptions): ListConnections {
  const isSecure = new URL(server).protocol === 'https:'
  const options = { keepAlive: true, keepAliveMsecs: 15_000, timeout: IDLE_MS }
  const agent = isSecure ? new HttpsAgent({ ...options, ...tls }) : new HttpAgent(options)
  const start = isSecure ? httpsRequest : httpRequest
  return {
    dispatch({ origin, path, method, headers }, body) {
      const request = start(origin + path, { agent, method, headers })
      let response: IncomingMessage | undefined
      const flow = {
        abort: (reason: Error) => void request.destroy(reason),
        pause: () => void response?.pause(),
        resume: () => void response?.resume(),
      }
      request.on('error', (error) => body.onResponseError(flow, error))
      request.once('socket', (socket) => boundConnecting(socket, isSecure))
      request.once('response', (begun) => {
        response = begun
        readInto(body, begun, flow)
      })
      body.onRequestStart(flow)
      request.end()
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

function readInto(body: Body, response: IncomingMessage, flow: Flow): void {
  body.onResponseStart(flow, response.statusCode ?? 0, response.headers)
  response.on('data', (bytes: Buffer) => body.onResponseData(flow, bytes))
  response.once('end', () => body.onResponseEnd())
  // One that breaks off ends in this way as well.
  response.once('error', (error) => body.onResponseError(flow, error))
}
