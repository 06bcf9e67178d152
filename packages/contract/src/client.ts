// The typed client made from the endpoint table: one method per endpoint. It never retries (callers decide) and runs in a
// browser too; a program may hand in a faster transport than fetch.
import { type Endpoint, fillPath, queryText } from './endpoint.ts'
import { type Call, type EndpointName, endpoints, type Other, type Output } from './endpoints.ts'
import { ApiError, ErrorBody, type ErrorCode, errorStatus } from './error.ts'

export interface TransportRequest {
  readonly method: string
  readonly url: string
  readonly headers: Record<string, string>
  readonly body: string | undefined
  readonly signal: AbortSignal | undefined
}
export interface TransportResponse {
  readonly status: number
  readonly header: (name: string) => string | null
  readonly text: () => Promise<string>
}
export type Transport = (request: TransportRequest) => Promise<TransportResponse>

export interface CallOptions {
  readonly signal?: AbortSignal
  readonly headers?: Record<string, string>
}
/** The answer with its headers, for callers that need ETag, cursor or count beside the body. */
export interface Answer<T> {
  readonly status: number
  readonly body: T
  readonly header: (name: string) => string | null
}
type Methods = { readonly [N in EndpointName]: (input: Call<N>, options?: CallOptions) => Promise<Output<N>> }
export interface Client extends Methods {
  readonly answer: <N extends EndpointName>(name: N, input: Call<N>, options?: CallOptions) => Promise<Answer<Output<N> | Other<N>>>
}

export interface ClientOptions {
  readonly baseUrl: string
  /** Read at each call, so that a rotated key is used without a new client. */
  readonly pak?: () => string
  readonly userAgent?: string
  readonly transport?: Transport
}

export function createClient(options: ClientOptions): Client {
  const answer = async (name: EndpointName, input: object, call: CallOptions = {}) =>
    readAnswer(endpoints[name], await send(options, endpoints[name], input, call))
  const methods = Object.fromEntries(
    (Object.keys(endpoints) as EndpointName[]).map((name) => [
      name,
      async (input: object, call?: CallOptions) => (await answer(name, input, call)).body,
    ]),
  )
  return { ...methods, answer } as unknown as Client
}

async function send(options: ClientOptions, endpoint: Endpoint, input: object, call: CallOptions): Promise<TransportResponse> {
  const { params, query, body } = input as { params?: Record<string, unknown>; query?: Record<string, unknown>; body?: unknown }
  const url = options.baseUrl.replace(/\/+$/, '') + fillPath(endpoint.path, params ?? {}) + queryText(query)
  return (options.transport ?? fetchTransport)({
    method: endpoint.method,
    url,
    headers: {
      accept: endpoint.text ?? 'application/json',
      // A call made with another credential needs no key, and there may be none yet.
      ...(options.pak === undefined || call.headers?.['authorization'] !== undefined ? {} : { authorization: `Bearer ${options.pak()}` }),
      ...(options.userAgent === undefined ? {} : { 'user-agent': options.userAgent }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...call.headers,
    },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: call.signal,
  })
}

async function readAnswer(endpoint: Endpoint, response: TransportResponse): Promise<Answer<never>> {
  const text = await response.text()
  if (response.status >= 400) throw errorFromAnswer(response.status, text, response.header('retry-after'))
  const isEmpty = text === '' || response.status === 304
  const body: unknown = isEmpty ? undefined : endpoint.text === undefined ? JSON.parse(text) : text
  return { status: response.status, body: body as never, header: response.header }
}

/** An answer of somebody in front of the broker (HTML, a bare status) still becomes an error with a known code. */
export function errorFromAnswer(status: number, text: string, retryAfter: string | null): ApiError {
  const parsed = ErrorBody.safeParse(parseOrNull(text))
  const retryAfterSeconds = retryAfter === null || !/^\d+$/.test(retryAfter) ? {} : { retryAfterSeconds: Number(retryAfter) }
  if (parsed.success && parsed.data.code in errorStatus) {
    const { code, message, details } = parsed.data
    return new ApiError(code as ErrorCode, message, { status, ...(details === undefined ? {} : { details }), ...retryAfterSeconds })
  }
  return new ApiError(codeOfStatus(status), `the broker answered ${status} without an error body`, {
    details: { status },
    ...retryAfterSeconds,
  })
}

function codeOfStatus(status: number): ErrorCode {
  const codes: Record<number, ErrorCode> = {
    401: 'unauthorized',
    403: 'forbidden',
    404: 'route_not_found',
    405: 'method_not_allowed',
    413: 'payload_too_large',
    429: 'rate_limited',
  }
  return codes[status] ?? (status >= 500 ? 'overloaded' : 'invalid_request_body')
}

function parseOrNull(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}

const fetchTransport: Transport = async ({ method, url, headers, body, signal }) => {
  const response = await fetch(url, {
    method,
    headers,
    redirect: 'error',
    ...(body === undefined ? {} : { body }),
    ...(signal === undefined ? {} : { signal }),
  })
  return { status: response.status, header: (name) => response.headers.get(name), text: () => response.text() }
}
