// GET with a short limit for the connection, a limit for silence, and few redirects that never leave HTTPS. Node's own fetch has no
// connect limit that can be set, and a closed network must be noticed within seconds.
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { request as httpsRequest } from 'node:https'
import type { TLSSocket } from 'node:tls'
import { isAllowed } from './asset-sources.ts'

export type OpenOptions = { signal?: AbortSignal; connectTimeoutMs?: number; stallTimeoutMs?: number }

const redirectsMax = 5

/** The response with its body unread; its status is the caller's business, redirects are not. */
export async function openUrl(address: string, options: OpenOptions): Promise<IncomingMessage> {
  let url = new URL(address)
  for (let hop = 0; hop <= redirectsMax; hop++) {
    if (!isAllowed(url)) throw new Error(`${address} leads to ${url.protocol}//${url.host}, which is neither HTTPS nor this machine`)
    const response = await get(url, options)
    const next = response.headers.location
    if (next === undefined || (response.statusCode ?? 0) < 300 || (response.statusCode ?? 0) >= 400) return response
    response.destroy()
    url = new URL(next, url)
  }
  throw new Error(`${address} was redirected more than ${redirectsMax} times`)
}

function get(url: URL, options: OpenOptions): Promise<IncomingMessage> {
  const { connectTimeoutMs = 2500, stallTimeoutMs = 30_000 } = options
  return new Promise((resolve, reject) => {
    const open = url.protocol === 'https:' ? httpsRequest : httpRequest
    const outgoing = open(url, { agent: false, ...(options.signal ? { signal: options.signal } : {}) }, resolve)
    const late = () => outgoing.destroy(new Error(`no connection within ${connectTimeoutMs / 1000} s`))
    const connectTimer = setTimeout(late, connectTimeoutMs)
    outgoing.once('socket', (socket) => {
      socket.once('encrypted' in socket && (socket as TLSSocket).encrypted ? 'secureConnect' : 'connect', () => clearTimeout(connectTimer))
    })
    outgoing.setTimeout(stallTimeoutMs, () => outgoing.destroy(new Error(`silent for ${stallTimeoutMs / 1000} s`)))
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
  // Several addresses of one host failed: the message is in the parts.
  return cause instanceof AggregateError ? cause.errors.map((part: Error) => part.message).join(', ') : cause.name
}
