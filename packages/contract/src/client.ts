// Typed client with one method per endpoint. It does not retry. It also runs in a browser; a program can pass a faster transport
// than fetch.
import { type Endpoint, fillPath, queryText } from './endpoint.ts'
import { type Call, type EndpointName, endpoints, type Other, type Output } from './endpoints.ts'
import { ApiError, ErrorBody, type ErrorCode, errorStatus } from './errors.ts'

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
/** Response with its headers, for callers that need ETag, cursor or count. */
export interface ClientResponse<T> {
  readonly status: number
  readonly body: T
  readonly header: (name: string) => string | null
}
type Methods = { readonly [N in EndpointName]: (input: Call<N>, options?: CallOptions) => Promise<Output<N>> }
export interface Client extends Methods {
  readonly call: <N extends EndpointName>(name: N, input: Call<N>, options?: CallOptions) => Promise<ClientResponse<Output<N> | Other<N>>>
}

export interface ClientOptions {
  readonly baseUrl: string
  /** Read on each call, so that a rotated PAK is used without a new client. */
  readonly pak?: () => string
  readonly userAgent?: string
  readonly transport?: Transport
}

export function createClient(options: ClientOptions): Client {
  const call = async (name: EndpointName, input: object, callOptions: CallOptions = {}) =>
    readResponse(endpoints[name], await send(options, endpoints[name], input, callOptions))
  const methods = Object.fromEntries(
    (Object.keys(endpoints) as EndpointName[]).map((name) => [
      name,
      async (input: object, callOptions?: CallOptions) => (await call(name, input, callOptions)).body,
    ]),
  )
  return { ...methods, call } as unknown as Client
}

async function send(options: ClientOptions, endpoint: Endpoint, input: object, call: CallOptions): Promise<TransportResponse> {
  const { params, query, body } = input as { params?: Record<string, unknown>; query?: Record<string, unknown>; body?: unknown }
  const url = options.baseUrl.replace(/\/+$/, '') + fillPath(endpoint.path, params ?? {}) + queryText(query)
  return (options.transport ?? fetchTransport)({
    method: endpoint.method,
    url,
    headers: {
      accept: endpoint.text ?? 'application/json',
      // A call with another credential needs no PAK.
      ...(options.pak === undefined || call.headers?.['authorization'] !== undefined ? {} : { authorization: `Bearer ${options.pak()}` }),
      ...(options.userAgent === undefined ? {} : { 'user-agent': options.userAgent }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...call.headers,
    },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: call.signal,
  })
}

async function readResponse(endpoint: Endpoint, response: TransportResponse): Promise<ClientResponse<never>> {
  const text = await response.text()
  if (response.status >= 400) throw toApiError(response.status, text, response.header('retry-after'))
  const isEmpty = text === '' || response.status === 304
  const body: unknown = isEmpty ? undefined : endpoint.text === undefined ? JSON.parse(text) : text
  return { status: response.status, body: body as never, header: response.header }
}

/** Also maps a response that a proxy wrote (HTML, empty body) to an error with a known code. */
export function toApiError(status: number, text: string, retryAfter: string | null): ApiError {
  const parsed = ErrorBody.safeParse(parseOrNull(text))
  const retryAfterSeconds = retryAfter === null || !/^\d+$/.test(retryAfter) ? {} : { retryAfterSeconds: Number(retryAfter) }
  if (parsed.success && parsed.data.code in errorStatus) {
    const { code, message, details } = parsed.data
    return new ApiError(code as ErrorCode, message, { status, ...(details === undefined ? {} : { details }), ...retryAfterSeconds })
  }
  return new ApiError(toErrorCode(status), `the broker answered ${status} without an error body`, {
    details: { status },
    hasBody: false,
    ...retryAfterSeconds,
  })
}

function toErrorCode(status: number): ErrorCode {
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
