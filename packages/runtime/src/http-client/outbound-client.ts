// The only HTTP client for addresses that users name (webhook receivers, forges, registries, downloads): http and https, checked
// addresses, verified TLS, no redirects, a proxy only if `env` names one, limits on bytes and time. `allow` lists destinations
// besides public addresses.
import type { Socket } from 'node:net'
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import { Agent, type Dispatcher } from 'undici'
import { Terminal } from '../errors.ts'
import type { Allow } from './address.ts'
import { checkHeaders, checkUrl } from './check-request.ts'
import { toFailure } from './classify-failure.ts'
import { type ConnectDeps, connectChecked, type Lookup, lookupAll, type Target } from './connect.ts'
import { connectThrough } from './outbound-tunnel.ts'
import { findProxy, type ProxyEnv } from './proxy-env.ts'
import { limitBody, type Overflow, readBody } from './response-body.ts'

export type OutboundRequest = {
  url: string | URL
  method?: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  headers?: Readonly<Record<string, string>>
  body?: string | Uint8Array
  /** Limit of the whole request, from name resolution to the last byte. */
  timeoutMs?: number
  answerBytesMax?: number
  /** What happens at `answerBytesMax`: the request fails, or the answer is cut there. */
  overflow?: Overflow
  signal?: AbortSignal
}
export type ResponseHead = { status: number; headers: Readonly<Record<string, string | string[] | undefined>> }
export type OutboundResponse = ResponseHead & { body: Buffer; isCut: boolean }

export interface Outbound {
  /** Any status is an answer, 3xx as well. Throws Terminal (url_refused, header_refused, address_refused, tls_refused, answer_too_large) or Retryable (unreachable, timeout). */
  request(request: OutboundRequest): Promise<OutboundResponse>
  /** For large responses: streams the body and fails at `answerBytesMax`. The caller must read it to the end or leave by `break`. */
  open(request: OutboundRequest): Promise<ResponseHead & { body: AsyncIterable<Buffer> }>
  close(): Promise<void>
}

export type OutboundOptions = {
  /** A function is called for each request, for settings that change. A new object closes the connections made under the old one. */
  allow?: Allow | (() => Allow)
  schemes?: readonly ('https:' | 'http:')[]
  /** Further certificate authorities (PEM), besides those Node trusts. */
  ca?: readonly string[]
  /** Client certificate and key (PEM). */
  clientCertificate?: { cert: string; key: string }
  /** Accepts any certificate; only for connectors with that option. */
  skipVerification?: boolean
  timeoutMs?: number
  /** Part of `timeoutMs` for name resolution and connection. */
  connectTimeoutMs?: number
  answerBytesMax?: number
  connectionsPerOrigin?: number
  userAgent?: string
  /** Environment that may name an outbound proxy (`HTTPS_PROXY`, `NO_PROXY`); default: no proxy. */
  env?: ProxyEnv
}

const defaults = { timeoutMs: 30_000, connectTimeoutMs: 10_000, answerBytesMax: 64 * 1024, connectionsPerOrigin: 16, userAgent: 'brokkr' }
const originsMax = 1_000

export function createOutbound(deps: { lookup?: Lookup }, options: OutboundOptions = {}): Outbound {
  const settings = { ...defaults, ...options }
  const secureContext = once(() => contextWith(options))
  const allowNow = () => (typeof settings.allow === 'function' ? settings.allow() : (settings.allow ?? allowNone))
  const pools = createPools((allow) =>
    newPool({ lookup: deps.lookup ?? lookupAll, secureContext, skipVerification: options.skipVerification === true }, allow, settings),
  )

  async function send(request: OutboundRequest, bytesMax: number): Promise<ResponseHead & { body: AsyncIterable<Buffer> }> {
    const allow = allowNow()
    const url = checkUrl(request.url, allow, options.schemes)
    const headers = { 'user-agent': settings.userAgent, ...checkHeaders(request.headers ?? {}) }
    const timeoutMs = request.timeoutMs ?? settings.timeoutMs
    const timeout = AbortSignal.timeout(timeoutMs)
    const signal = request.signal ? AbortSignal.any([request.signal, timeout]) : timeout
    const where = `${request.method ?? 'GET'} ${url.origin}`
    const explain = (thrown: unknown) =>
      toFailure(thrown, where, { timeout, timeoutMs, ...(request.signal ? { caller: request.signal } : {}) })
    try {
      const answer = await pools
        .of(allow)
        .request({ ...wireOptions(request, url), headers, signal, headersTimeout: timeoutMs, bodyTimeout: timeoutMs })
      return { status: answer.statusCode, headers: answer.headers, body: limitBody(answer.body, { bytesMax, where, explain }) }
    } catch (thrown) {
      throw explain(thrown)
    }
  }

  return {
    async request(request) {
      const bytesMax = request.answerBytesMax ?? settings.answerBytesMax
      const isCutting = request.overflow === 'cut'
      const { body, status, headers } = await send(request, isCutting ? Infinity : bytesMax)
      return { status, headers, ...(await readBody(body, bytesMax)) }
    },
    open: (request) => send(request, request.answerBytesMax ?? settings.answerBytesMax),
    close: () => pools.close(),
  }
}

const allowNone: Allow = {}

function wireOptions(request: OutboundRequest, url: URL): Dispatcher.RequestOptions {
  const { method = 'GET', body } = request
  return { origin: url.origin, path: `${url.pathname}${url.search}`, method, ...(body === undefined ? {} : { body }) }
}

function contextWith({ ca = [], clientCertificate = {} }: { ca?: readonly string[]; clientCertificate?: object }): SecureContext {
  const authorities = ca.length === 0 ? {} : { ca: [...getCACertificates('default'), ...ca] }
  return createSecureContext({ minVersion: 'TLSv1.2', ...authorities, ...clientCertificate })
}

function newPool(deps: ConnectDeps, allow: Allow, settings: typeof defaults & Pick<OutboundOptions, 'env'>): Agent {
  return new Agent({
    connections: settings.connectionsPerOrigin,
    maxOrigins: originsMax,
    connect: ({ protocol, hostname, port }, settle) => {
      const target = { protocol, host: hostname, port: Number(port) || (protocol === 'https:' ? 443 : 80) }
      connect(deps, target, allow, settings).then(
        (socket) => settle(null, socket),
        (failure: Error) => settle(failure, null),
      )
    },
  })
}

async function connect(
  deps: ConnectDeps,
  target: Target,
  allow: Allow,
  { env, connectTimeoutMs }: typeof defaults & Pick<OutboundOptions, 'env'>,
): Promise<Socket> {
  const { protocol, host, port } = target
  const proxy = env === undefined ? null : findProxy(new URL(`${protocol}//${host.includes(':') ? `[${host}]` : host}:${port}`), env)
  return proxy === null ? connectChecked(deps, target, allow, connectTimeoutMs) : connectThrough(proxy, deps, target, connectTimeoutMs)
}

/** New rules get new connections, because existing ones were checked under the old rules. */
function createPools(make: (allow: Allow) => Agent): { of(allow: Allow): Agent; close(): Promise<void> } {
  let current: { allow: Allow; pool: Agent } | null = null
  let isClosed = false
  return {
    of(allow) {
      if (isClosed) throw new Terminal('the outbound client is closed', { code: 'closed' })
      if (current?.allow === allow) return current.pool
      void current?.pool.close()
      current = { allow, pool: make(allow) }
      return current.pool
    },
    async close() {
      isClosed = true
      await current?.pool.destroy()
    },
  }
}

function once<T>(make: () => T): () => T {
  let cached: { value: T } | null = null
  return () => (cached ??= { value: make() }).value
}
