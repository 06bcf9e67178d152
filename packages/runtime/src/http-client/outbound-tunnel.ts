// A tunnel through an HTTP proxy (CONNECT). TLS to the target runs inside it, so certificate and name are verified as without a proxy.
import { request as httpRequest } from 'node:http'
import { request as httpsRequest } from 'node:https'
import { isIP, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { Retryable, Terminal } from '../errors.ts'
import { type ConnectDeps, rejectedConnection, type Target } from './connect.ts'

/** The proxy resolves the name, so addresses are not checked here; the operator who names a proxy decides what it may reach. */
export async function connectThrough(proxy: URL, deps: ConnectDeps, target: Target, timeoutMs: number): Promise<Socket> {
  const socket = await openTunnel(proxy, target, timeoutMs)
  if (target.protocol !== 'https:') return socket
  const { promise, resolve, reject } = Promise.withResolvers<Socket>()
  const secure = connectTls({
    socket,
    ...(isIP(target.host) ? {} : { servername: target.host }),
    secureContext: deps.secureContext(),
    rejectUnauthorized: deps.skipVerification !== true,
    ALPNProtocols: ['http/1.1'],
  })
  const fail = (cause: Error) => {
    secure.destroy()
    reject(rejectedConnection(cause, target, proxy.host))
  }
  const timer = setTimeout(() => fail(new Error('no connection in time')), timeoutMs)
  secure.once('error', fail)
  secure.once('secureConnect', () => resolve(secure.off('error', fail)))
  return promise.finally(() => clearTimeout(timer))
}

function openTunnel(proxy: URL, { host, port }: Target, timeoutMs: number): Promise<Socket> {
  const authority = `${host.includes(':') ? `[${host}]` : host}:${port}`
  const credentials = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`
  const { promise, resolve, reject } = Promise.withResolvers<Socket>()
  const request = (proxy.protocol === 'https:' ? httpsRequest : httpRequest)({
    host: proxy.hostname.replace(/^\[|\]$/g, ''),
    port: proxy.port || (proxy.protocol === 'https:' ? 443 : 80),
    method: 'CONNECT',
    path: authority,
    headers: {
      host: authority,
      ...(proxy.username === '' ? {} : { 'proxy-authorization': `Basic ${Buffer.from(credentials).toString('base64')}` }),
    },
    agent: false,
    timeout: timeoutMs,
  })
  request.once('connect', (answer, socket) => {
    if (answer.statusCode === 200) return resolve(socket)
    socket.destroy()
    reject(new Retryable(`the proxy ${proxy.host} answered ${answer.statusCode} to a tunnel to ${authority}`, { code: 'unreachable' }))
  })
  // A proxy that answers without a tunnel does not know CONNECT.
  request.once('response', () => reject(new Terminal(`${proxy.host} is not an HTTP proxy`, { code: 'unreachable' })))
  request.once('timeout', () => request.destroy(new Error('no answer in time')))
  request.once('error', (cause) => reject(new Retryable(`the proxy ${proxy.host} could not be reached`, { code: 'unreachable', cause })))
  request.end()
  return promise
}
