// GET with a connect timeout, an idle timeout, and at most 5 redirects, only to HTTPS or loopback. Node's fetch has no configurable
// connect timeout, and a closed network must fail within seconds.
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { TLSSocket } from 'node:tls'
import { isAllowed } from './sources.ts'

export type HttpGetOptions = { signal?: AbortSignal; connectTimeoutMs?: number; stallTimeoutMs?: number }

const redirectsMax = 5

/** Follows redirects and returns the response with its body unread; the caller checks the status. */
export async function httpGet(address: string, options: HttpGetOptions): Promise<IncomingMessage> {
  let url = new URL(address)
  for (let hop = 0; hop <= redirectsMax; hop++) {
    if (!isAllowed(url)) throw new Error(`${address} redirects to ${url.protocol}//${url.host}, which is neither HTTPS nor this machine`)
    const response = await sendGet(url, options)
    const next = response.headers.location
    if (next === undefined || (response.statusCode ?? 0) < 300 || (response.statusCode ?? 0) >= 400) return response
    response.destroy()
    url = new URL(next, url)
  }
  throw new Error(`${address} was redirected more than ${redirectsMax} times`)
}

function sendGet(url: URL, options: HttpGetOptions): Promise<IncomingMessage> {
  const { connectTimeoutMs = 2500, stallTimeoutMs = 30_000 } = options
  return new Promise((resolve, reject) => {
    const sendRequest = url.protocol === 'https:' ? httpsRequest : httpRequest
    const outgoing = sendRequest(url, { agent: false, ...(options.signal ? { signal: options.signal } : {}) }, resolve)
    const onConnectTimeout = () => outgoing.destroy(new Error(`no connection within ${connectTimeoutMs / 1000} s`))
    const connectTimer = setTimeout(onConnectTimeout, connectTimeoutMs)
    outgoing.once('socket', (socket) => {
      socket.once('encrypted' in socket && (socket as TLSSocket).encrypted ? 'secureConnect' : 'connect', () => clearTimeout(connectTimer))
    })
    outgoing.setTimeout(stallTimeoutMs, () => outgoing.destroy(new Error(`no data for ${stallTimeoutMs / 1000} s`)))
    outgoing.once('close', () => clearTimeout(connectTimer))
    outgoing.once('error', (cause) => {
      clearTimeout(connectTimer)
      reject(options.signal?.aborted ? cause : new Error(`${url.href} could not be reached: ${describe(cause)}`, { cause }))
    })
    outgoing.end()
  })
}

function describe(cause: Error): string {
  if (cause.message !== '') return cause.message
  // All addresses of the host failed: each error has its own message.
  return cause instanceof AggregateError ? cause.errors.map((part: Error) => part.message).join(', ') : cause.name
}
