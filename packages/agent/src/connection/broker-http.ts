// HTTP client for the broker: keep-alive connections, limits on size and time of responses, no redirects. Sends the PAK only to the
// broker's origin.
import { type Client, createClient, type Transport, toApiError } from '@brokkr/contract/client.ts'
import { Retryable, Terminal } from '@brokkr/runtime/errors.ts'
import { Agent, type Dispatcher } from 'undici'
import type { BrokerResponse } from '../policy/credential-status.ts'
import { findProxy, openProxyAgent, type ProxyEnv } from './broker-proxy.ts'
import { type BrokerTls, brokerTls } from './broker-tls.ts'

export interface BrokerHttpOptions extends BrokerTls {
  /** Scheme, host, port and optional path. */
  readonly url: string
  readonly userAgent: string
  readonly timeoutMs: number
  /** Read for each request, so that a renewed PAK is used at once. */
  readonly pak: () => string
  /** Names an outbound proxy (broker-proxy.ts); without it there is none. */
  readonly env?: ProxyEnv
  /** Called with every response before its body is read. */
  readonly onResponse?: (answered: BrokerResponse) => void
}
export interface StreamResponse {
  readonly status: number
  readonly header: (name: string) => string | null
  readonly body: AsyncIterable<Buffer>
  /** Must be called after the body was read or abandoned; closes the connection. */
  readonly close: () => void
}
export interface BrokerHttp {
  readonly client: Client
  /** An unbounded body; the caller limits the time. Throws ApiError for status 300 and above. */
  open(path: string, options: { accept: string; signal: AbortSignal }): Promise<StreamResponse>
  /** Calls an operation that is not in the endpoint table yet. */
  post(path: string, options: { authorization: string; body: unknown; signal: AbortSignal }): Promise<unknown>
  /** Reads a body as text of at most `bytesMax`. */
  text(path: string, options: { accept: string; bytesMax: number; signal: AbortSignal }): Promise<string>
  /** Reads the certificate files again; new connections replace the old ones. */
  refreshTls(): Promise<void>
  close(): Promise<void>
}

const MIB = 1024 * 1024
/** The complete desired state of a polling agent is the largest response. */
const answerBytesMax = 256 * MIB
const errorBytesMax = 64 * 1024

export async function openBrokerHttp(options: BrokerHttpOptions): Promise<BrokerHttp> {
  const tls = await brokerTls(options)
  const wire: Wire = { agent: await createAgent(tls, options), base: new URL(options.url), options }
  let used = JSON.stringify(tls)
  return {
    client: createClient({ baseUrl: options.url, pak: options.pak, userAgent: options.userAgent, transport: createTransport(wire) }),
    open: (path, call) => open(wire, path, call),
    post: (path, call) => post(wire, path, call),
    text: (path, call) => text(wire, path, call),
    refreshTls: async () => {
      const now = await brokerTls(options)
      if (JSON.stringify(now) === used) return
      used = JSON.stringify(now)
      // Requests in flight continue; streams end within their lifetime.
      const old = wire.agent
      wire.agent = await createAgent(now, options)
      void old.close().catch(() => undefined)
    },
    close: () => wire.agent.destroy(new Terminal('connection to the broker closed')),
  }
}

async function createAgent(tls: Awaited<ReturnType<typeof brokerTls>>, { timeoutMs, url, env }: BrokerHttpOptions): Promise<Dispatcher> {
  const pool = {
    connections: 16,
    pipelining: 1,
    keepAliveTimeout: 60_000,
    headersTimeout: 0,
    bodyTimeout: 0,
    maxHeaderSize: 64 * 1024,
    connect: { ...tls, timeout: Math.min(10_000, timeoutMs) },
  }
  const proxy = env === undefined ? null : findProxy(new URL(url), env)
  return proxy === null ? new Agent(pool) : openProxyAgent(proxy, pool)
}

interface Wire {
  agent: Dispatcher
  readonly base: URL
  readonly options: BrokerHttpOptions
}

function createTransport(wire: Wire): Transport {
  return async ({ method, url, headers, body, signal }) => {
    const deadline = AbortSignal.timeout(wire.options.timeoutMs)
    const both = signal === undefined ? deadline : AbortSignal.any([signal, deadline])
    const response = await dispatch(wire, new URL(url), { method, headers, body: body ?? null, signal: both })
    const read = await readText(response.body, answerBytesMax)
    return { status: response.statusCode, header: (name) => getHeader(response, name), text: () => Promise.resolve(read) }
  }
}

async function open(wire: Wire, path: string, call: { accept: string; signal: AbortSignal }): Promise<StreamResponse> {
  const { signal } = call
  const response = await dispatch(wire, buildUrl(wire, path), { method: 'GET', headers: buildHeaders(wire, call.accept), signal })
  if (response.statusCode >= 300)
    throw toApiError(response.statusCode, await readText(response.body, errorBytesMax), getHeader(response, 'retry-after'))
  return {
    status: response.statusCode,
    header: (name) => getHeader(response, name),
    body: response.body,
    close: () => closeBody(response.body),
  }
}

async function post(wire: Wire, path: string, call: { authorization: string; body: unknown; signal: AbortSignal }): Promise<unknown> {
  const signal = AbortSignal.any([call.signal, AbortSignal.timeout(wire.options.timeoutMs)])
  const headers = { ...buildHeaders(wire, 'application/json'), authorization: call.authorization, 'content-type': 'application/json' }
  const response = await dispatch(wire, buildUrl(wire, path), { method: 'POST', headers, body: JSON.stringify(call.body), signal })
  const read = await readText(response.body, errorBytesMax)
  if (response.statusCode >= 300) throw toApiError(response.statusCode, read, getHeader(response, 'retry-after'))
  return read === '' ? null : JSON.parse(read)
}

async function text(wire: Wire, path: string, call: { accept: string; bytesMax: number; signal: AbortSignal }): Promise<string> {
  const signal = AbortSignal.any([call.signal, AbortSignal.timeout(wire.options.timeoutMs)])
  const response = await dispatch(wire, buildUrl(wire, path), { method: 'GET', headers: buildHeaders(wire, call.accept), signal })
  const isGood = response.statusCode < 300
  const read = await readText(response.body, isGood ? call.bytesMax : errorBytesMax)
  if (!isGood) throw toApiError(response.statusCode, read, getHeader(response, 'retry-after'))
  return read
}

const buildHeaders = ({ options }: Wire, accept: string): Record<string, string> => ({
  accept,
  authorization: `Bearer ${options.pak()}`,
  'user-agent': options.userAgent,
})

const buildUrl = ({ options }: Wire, path: string): URL => new URL(options.url.replace(/\/+$/, '') + path)

type Request = Pick<Dispatcher.RequestOptions, 'method' | 'headers' | 'body' | 'signal'>

async function dispatch(wire: Wire, url: URL, request: Request): Promise<Dispatcher.ResponseData> {
  if (url.origin !== wire.base.origin)
    throw new Terminal(`request refused: the PAK is sent only to ${wire.base.origin}, not to ${url.origin}`)
  const response = await wire.agent.request({ origin: url.origin, path: url.pathname + url.search, ...request })
  const { statusCode } = response
  wire.options.onResponse?.({
    method: String(request.method),
    path: url.pathname,
    status: statusCode,
    contentType: getHeader(response, 'content-type'),
  })
  if (statusCode < 300 || statusCode >= 400 || statusCode === 304) return response
  closeBody(response.body)
  throw new Retryable(
    `the broker at ${wire.base.origin} answered ${statusCode}: redirects are not followed, to avoid sending the PAK to another host. Set agent.broker_url to the final address`,
  )
}

function getHeader({ headers }: Dispatcher.ResponseData, name: string): string | null {
  const value = headers[name]
  return (Array.isArray(value) ? value[0] : value) ?? null
}

async function readText(body: Dispatcher.ResponseData['body'], bytesMax: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body as AsyncIterable<Buffer>) {
    bytes += chunk.length
    // Leaving the loop destroys the body and with it the connection.
    if (bytes > bytesMax) throw new Terminal(`the broker's response exceeds ${bytesMax} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

function closeBody(body: Dispatcher.ResponseData['body']): void {
  body.on('error', () => undefined)
  body.destroy()
}
