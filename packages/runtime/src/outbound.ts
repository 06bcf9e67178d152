// The only HTTP client to addresses that users or third parties name (webhook receivers, forges, registries, downloads):
// http and https, checked addresses, verified TLS, no redirects, no proxies, and a bound on bytes and time. What may be
// reached besides public addresses is said by `allow`.
import { createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import type { Agent, Dispatcher } from 'undici'
import type { Allow } from './address.ts'
import { Terminal } from './errors.ts'
import { HttpPool } from './http-pool.ts'
import { collect, limited, type Overflow } from './outbound-answer.ts'
import { connectChecked, type Lookup, lookupAll } from './outbound-connect.ts'
import { failureOf } from './outbound-failure.ts'
import { checkHeaders, checkUrl } from './outbound-request.ts'

export type OutboundRequest = {
  url: string | URL
  method?: 'GET' | 'HEAD' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  headers?: Readonly<Record<string, string>>
  body?: string | Uint8Array
  /** For the whole exchange, from the look-up of the name to the last byte. */
  timeoutMs?: number
  answerBytesMax?: number
  /** What happens at `answerBytesMax`: the request fails, or the answer is cut there. */
  overflow?: Overflow
  signal?: AbortSignal
}
export type AnswerHead = { status: number; headers: Readonly<Record<string, string | string[] | undefined>> }
export type OutboundAnswer = AnswerHead & { body: Buffer; isCut: boolean }

export interface Outbound {
  /** Any status is an answer, 3xx as well. Throws Terminal (url_refused, header_refused, address_refused, tls_refused, answer_too_large) or Retryable (unreachable, timeout). */
  request(request: OutboundRequest): Promise<OutboundAnswer>
  /** For large answers: the body as it comes, failing at `answerBytesMax`. It must be read to its end or left by `break`. */
  open(request: OutboundRequest): Promise<AnswerHead & { body: AsyncIterable<Buffer> }>
  close(): Promise<void>
}

export type OutboundOptions = {
  /** A function is asked for each request: for settings that change. A new object closes the connections made under the old one. */
  allow?: Allow | (() => Allow)
  schemes?: readonly ('https:' | 'http:')[]
  /** Further certificate authorities (PEM), besides those Node trusts. */
  ca?: readonly string[]
  /** With which we prove who we are (PEM). */
  clientCertificate?: { cert: string; key: string }
  /** Takes any certificate. Only for connectors whose user asked for it. */
  skipVerification?: boolean
  timeoutMs?: number
  /** Of `timeoutMs`, for the look-up and the connection. */
  connectTimeoutMs?: number
  answerBytesMax?: number
  connectionsPerOrigin?: number
  userAgent?: string
}

const defaults = { timeoutMs: 30_000, connectTimeoutMs: 10_000, answerBytesMax: 64 * 1024, connectionsPerOrigin: 16, userAgent: 'brokkr' }
const originsMax = 1_000

export function createOutbound(deps: { lookup?: Lookup }, options: OutboundOptions = {}): Outbound {
  const settings = { ...defaults, ...options }
  const secureContext = once(() => contextWith(options))
  const allowNow = () => (typeof settings.allow === 'function' ? settings.allow() : (settings.allow ?? noneAllowed))
  const pools = createPools((allow) =>
    newPool({ lookup: deps.lookup ?? lookupAll, secureContext, skipVerification: options.skipVerification === true }, allow, settings),
  )

  async function send(request: OutboundRequest, bytesMax: number): Promise<AnswerHead & { body: AsyncIterable<Buffer> }> {
    const allow = allowNow()
    const url = checkUrl(request.url, allow, options.schemes)
    const headers = { 'user-agent': settings.userAgent, ...checkHeaders(request.headers ?? {}) }
    const timeoutMs = request.timeoutMs ?? settings.timeoutMs
    const timeout = AbortSignal.timeout(timeoutMs)
    const signal = request.signal ? AbortSignal.any([request.signal, timeout]) : timeout
    const where = `${request.method ?? 'GET'} ${url.origin}`
    const explain = (thrown: unknown) =>
      failureOf(thrown, where, { timeout, timeoutMs, ...(request.signal ? { caller: request.signal } : {}) })
    try {
      const answer = await pools
        .of(allow)
        .request({ ...wireOptions(request, url), headers, signal, headersTimeout: timeoutMs, bodyTimeout: timeoutMs })
      return { status: answer.statusCode, headers: answer.headers, body: limited(answer.body, { bytesMax, where, explain }) }
    } catch (thrown) {
      throw explain(thrown)
    }
  }

  return {
    async request(request) {
      const bytesMax = request.answerBytesMax ?? settings.answerBytesMax
      const isCutting = request.overflow === 'cut'
      const { body, status, headers } = await send(request, isCutting ? Infinity : bytesMax)
      return { status, headers, ...(await collect(body, bytesMax)) }
    },
    open: (request) => send(request, request.answerBytesMax ?? settings.answerBytesMax),
    close: () => pools.close(),
  }
}

const noneAllowed: Allow = {}

function wireOptions(request: OutboundRequest, url: URL): Dispatcher.RequestOptions {
  const { method = 'GET', body } = request
  return { origin: url.origin, path: `${url.pathname}${url.search}`, method, ...(body === undefined ? {} : { body }) }
}

function contextWith({ ca = [], clientCertificate = {} }: { ca?: readonly string[]; clientCertificate?: object }): SecureContext {
  const authorities = ca.length === 0 ? {} : { ca: [...getCACertificates('default'), ...ca] }
  return createSecureContext({ minVersion: 'TLSv1.2', ...authorities, ...clientCertificate })
}

function newPool(deps: Parameters<typeof connectChecked>[0], allow: Allow, settings: typeof defaults): Agent {
  return new HttpPool({
    connections: settings.connectionsPerOrigin,
    maxOrigins: originsMax,
    connect: ({ protocol, hostname, port }, settle) => {
      const target = { protocol, host: hostname, port: Number(port) || (protocol === 'https:' ? 443 : 80) }
      connectChecked(deps, target, allow, settings.connectTimeoutMs).then(
        (socket) => settle(null, socket),
        (failure: Error) => settle(failure, null),
      )
    },
  })
}

/** Connections were made under the rules of their time: other rules, other connections. */
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
  let made: { value: T } | null = null
  return () => (made ??= { value: make() }).value
}
