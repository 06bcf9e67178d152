// HTTP to one API server: adds credentials, bounds responses and turns every failure into a KubeError. Repeats a request in two cases only:
// after a 401 if the credential was renewed meanwhile, and a GET whose reused connection closed before the first byte of the response.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errors } from 'undici'
import type { Credentials } from '../auth/credentials.ts'
import type { Impersonation, KubeConfig } from '../auth/kube-config.ts'
import { KubeError } from '../client/kube-error.ts'
import { type KubeResponse, toKubeError } from '../client/response-error.ts'
import { type ConnectionPools, createConnections } from './connections.ts'
import { type Deadline, startDeadline } from './deadline.ts'
import { decompress, isGzipped } from './decompress.ts'
import type { RequestLimiter } from './request-limiter.ts'
import type { PoolRequest } from './request-pool.ts'
import { ResponseReader, StaleConnection } from './response-reader.ts'
import type { StreamRequest } from './stream-connections.ts'
import { StreamedBody } from './streamed-body.ts'

export interface TransportRequest {
  method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Path and query below the server address. */
  path: string
  body?: string | Uint8Array | undefined
  contentType?: string | undefined
  accept?: string | undefined
  timeoutMs?: number | undefined
  signal?: AbortSignal | undefined
  as?: Impersonation | undefined
  /** Bypasses the request limiter: leases and probes must not wait behind a backlog. */
  urgent?: boolean | undefined
  /** Called right before the request is written to its connection. If it throws, the request is not sent. */
  guard?: (() => void) | undefined
  headers?: Record<string, string> | undefined
  /** For `open`: the body is finite, so the time limit covers it and the request limiter applies. */
  isFinite?: boolean | undefined
}

export interface StreamedResponse {
  status: number
  headers: KubeResponse['headers']
  body: StreamedBody
  /** Must be called after the body was read or is no longer needed. */
  close(): void
}

export interface Transport {
  send(request: TransportRequest): Promise<KubeResponse>
  /** For bodies that are read while they arrive. Without `isFinite`, the time limit covers the headers only and the limiter is bypassed. */
  open(request: TransportRequest): Promise<StreamedResponse>
  close(): Promise<void>
}

export interface TransportOptions {
  timeoutMs: number
  responseBytesMax: number
  userAgent: string
}

export interface TransportDeps {
  config: KubeConfig
  credentials: Credentials
  limiter: RequestLimiter
  clock: Clock
  signal: AbortSignal
}

export function createTransport(deps: TransportDeps, options: TransportOptions): Transport {
  const { origin, pathname } = new URL(deps.config.server)
  const prefix = pathname === '/' ? '' : pathname
  const connections = createConnections(deps)
  const inFlight = new Set<ResponseReader>()
  deps.signal.addEventListener('abort', () => inFlight.forEach((reader) => reader.fail(deps.signal.reason)), { once: true })

  async function prepare(): Promise<Prepared> {
    const [pools, token] = await Promise.all([connections.pools(), deps.credentials.token()])
    return { pools, token }
  }

  /** The same without waiting: pools and token are usually in memory, and an await costs each request a turn of the event loop. */
  function prepareNow(): Prepared | undefined {
    const pools = connections.poolsNow()
    const current = pools && deps.credentials.tokenNow()
    return pools && current && { pools, token: current.token }
  }

  function buildRequest(request: TransportRequest, token: string | undefined): PoolRequest & StreamRequest {
    const headers = buildHeaders(request, options.userAgent, token, request.as ?? deps.config.as)
    return { origin, path: prefix + request.path, method: request.method, headers, body: request.body }
  }

  const describe = (request: TransportRequest): string => `${request.method} ${deps.config.server}${request.path.split('?')[0]}`

  async function send(request: TransportRequest): Promise<KubeResponse> {
    const release = request.urgent ? () => undefined : (deps.limiter.tryAcquire() ?? (await deps.limiter.acquire(request.signal)))
    try {
      const response = await exchange(request)
      const isRenewed = response.status === 401 && (await deps.credentials.renew())
      if (isRenewed) connections.recheck()
      const last = isRenewed ? await exchange(request) : response
      return last.status < 300 ? last : await refuse(describe(request), last)
    } catch (error) {
      throw toRequestError(describe(request), error, [request.signal, deps.signal])
    } finally {
      release()
    }
  }

  async function exchange(request: TransportRequest): Promise<KubeResponse> {
    const { pools, token } = prepareNow() ?? (await prepare())
    const built = buildRequest(request, token)
    const reader = readerFor(request)
    if (!reader.isSettled) pools.requests.dispatch(built, reader)
    return reader.response.catch((error: unknown) => {
      if (request.method !== 'GET' || !(error instanceof StaleConnection)) throw error
      const secondReader = readerFor(request)
      if (!secondReader.isSettled) pools.requests.dispatchOnFreshConnection(built, secondReader)
      return secondReader.response
    })
  }

  function readerFor(request: TransportRequest): ResponseReader {
    const limits = {
      what: describe(request),
      timeoutMs: request.timeoutMs ?? options.timeoutMs,
      bytesMax: options.responseBytesMax,
      signal: request.signal,
      guard: request.guard,
    }
    const reader = new ResponseReader(limits, inFlight)
    if (deps.signal.aborted) reader.fail(deps.signal.reason)
    return reader
  }

  async function refuse(what: string, response: KubeResponse): Promise<never> {
    const error = toKubeError(what, response)
    if (error.reason !== 'Unauthorized') throw error
    throw new KubeError(`${error.message}. ${await deps.credentials.explain()}`, {
      reason: 'Unauthorized',
      status: 401,
      details: error.details,
    })
  }

  async function open(request: TransportRequest): Promise<StreamedResponse> {
    const release = request.isFinite ? await deps.limiter.acquire(request.signal) : () => undefined
    const deadline = startDeadline(request.timeoutMs ?? options.timeoutMs, [request.signal, deps.signal])
    try {
      const first = await start(request, deadline)
      const { status, headers, body } = first.status === 401 ? await startAgain(first, request, deadline) : first
      if (status >= 300)
        await refuse(describe(request), {
          status,
          headers,
          text: await readText(describe(request), body, headers, options.responseBytesMax),
        })
      if (!request.isFinite) deadline.lift()
      const close = (): void => {
        closeBody(body, deadline)
        release()
      }
      return { status, headers, body, close }
    } catch (error) {
      deadline.clear()
      release()
      throw toRequestError(describe(request), error, [request.signal, deps.signal])
    }
  }

  async function start(request: TransportRequest, deadline: Deadline): Promise<StartedResponse> {
    const { pools, token } = await prepare()
    request.guard?.()
    const built = buildRequest(request, token)
    const body = new StreamedBody()
    const abort = (): void => body.close(deadline.timedOut ? timedOut(request, deadline) : (deadline.signal.reason as Error))
    if (deadline.signal.aborted) abort()
    else {
      deadline.signal.addEventListener('abort', abort, { once: true })
      if (request.isFinite) pools.streams.list(built, body)
      else pools.streams.watch(built, body)
    }
    return { ...(await body.head), body }
  }

  async function startAgain(first: StartedResponse, request: TransportRequest, deadline: Deadline): Promise<StartedResponse> {
    if (!(await deps.credentials.renew())) return first
    first.body.close(new Error('the credential was renewed'))
    connections.recheck()
    return start(request, deadline)
  }

  const timedOut = (request: TransportRequest, deadline: Deadline): KubeError =>
    new KubeError(`${describe(request)}: ${(deadline.signal.reason as Error).message}`, { reason: 'TimedOut' })

  return { send, open, close: async () => connections.close() }
}

type StartedResponse = Omit<StreamedResponse, 'close'>

interface Prepared {
  readonly pools: ConnectionPools
  readonly token: string | undefined
}

function closeBody(body: StreamedBody, deadline: Deadline): void {
  deadline.clear()
  body.close(new Error('closed by the caller'))
}

function buildHeaders(
  request: TransportRequest,
  userAgent: string,
  token: string | undefined,
  as: Impersonation | undefined,
): Record<string, string | string[]> {
  return {
    accept: request.accept ?? 'application/json',
    'user-agent': userAgent,
    ...(token ? { authorization: `Bearer ${token}` } : {}),
    ...(request.body === undefined ? {} : { 'content-type': request.contentType ?? 'application/json' }),
    ...(as ? impersonationHeaders(as) : {}),
    ...request.headers,
  }
}

function impersonationHeaders(as: Impersonation): Record<string, string | string[]> {
  const extra = Object.entries(as.extra ?? {}).map(([key, values]) => [`Impersonate-Extra-${encodeURIComponent(key)}`, values] as const)
  return {
    'Impersonate-User': as.user,
    ...(as.groups?.length ? { 'Impersonate-Group': as.groups } : {}),
    ...(as.uid ? { 'Impersonate-Uid': as.uid } : {}),
    ...Object.fromEntries(extra),
  }
}

async function readText(what: string, body: StreamedBody, headers: KubeResponse['headers'], bytesMax: number): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body) {
    bytes += chunk.length
    if (bytes > bytesMax) {
      const error = new KubeError(`${what}: the response is larger than ${bytesMax} bytes`, { reason: 'AnswerTooLarge' })
      body.close(error)
      throw error
    }
    chunks.push(chunk)
  }
  const whole = Buffer.concat(chunks, bytes)
  return (isGzipped(headers) ? decompress(whole, bytesMax) : whole).toString('utf8')
}

/** Returns the reason of an aborted signal; everything else becomes a KubeError. */
export function toRequestError(what: string, error: unknown, signals: ReadonlyArray<AbortSignal | undefined>): unknown {
  if (error instanceof KubeError) return error
  const aborted = signals.find((signal) => signal?.aborted)
  if (aborted) return aborted.reason
  if (!(error instanceof Error) || !('code' in error)) return error
  const code = String(error.code)
  if (code === 'UND_ERR_INVALID_ARG')
    return new KubeError(`${what}: the request is not valid HTTP: ${error.message}`, { reason: 'BadRequest', cause: error })
  if (error instanceof errors.HTTPParserError || MALFORMED_RESPONSE.test(code))
    return new KubeError(`${what}: the response is not valid HTTP/1.1: ${error.message}`, { reason: 'BadAnswer', cause: error })
  if (!/CERT|TLS|SSL|SELF_SIGNED|VERIFY/.test(code))
    return new KubeError(`${what}: ${code}: ${error.message}`, { reason: 'Unreachable', cause: error })
  return new KubeError(
    `${what}: the server's certificate is not trusted (${code}): ${error.message}. Check certificate-authority of the kubeconfig`,
    { reason: 'Untrusted', cause: error },
  )
}

/** Codes of Node's HTTP parser, except the one for a connection that closed within the response, and undici's code for its header limit. */
const MALFORMED_RESPONSE = /^HPE_(?!INVALID_EOF_STATE)|^UND_ERR_HEADERS_OVERFLOW$/
