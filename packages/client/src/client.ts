// Typed client: one method per endpoint of the contract, lists as pages, watches as events. Repeats attempts that failed for a
// passing reason; every POST then carries an idempotency key, the same in each attempt.
import type { Call, EndpointName, Other, Output } from '@brokkr/contract/endpoints.ts'
import { readApiError } from './errors.ts'
import { type PagedName, type PageItem, type PageOptions, readItems, readPages } from './pages.ts'
import { createKey, decideRetry, delay, randomShare } from './retry.ts'
import { routes, type StreamName, textRoutes } from './routes.ts'
import { type Answer, fetchTransport, fillPath, sendOnce, type Transport, type TransportRequest, toQueryText } from './transport.ts'
import { type WatchEvent, type WatchOptions, watchChanges } from './watch.ts'

export interface ClientOptions {
  /** Address of the broker; empty in a browser: the own origin. */
  readonly baseUrl: string
  /** Read on each call, so that a rotated PAK is used without a new client. Without it, a browser sends its session cookie. */
  readonly pak?: () => string
  readonly userAgent?: string
  readonly transport?: Transport
  /** Repeated attempts of one call, 3 unless given. 0: no call is repeated, and no idempotency key is added. */
  readonly retries?: number
  /** Of one attempt, 30 s unless given. */
  readonly timeoutMs?: number
}
export interface CallOptions {
  readonly signal?: AbortSignal
  readonly headers?: Record<string, string>
  readonly timeoutMs?: number
  /** Of a POST. A key that the caller keeps makes a repetition after a restart safe, too. */
  readonly idempotencyKey?: string
}
/** Response with its headers, for callers that need ETag, cursor or count. */
export interface ClientResponse<T> {
  readonly status: number
  readonly body: T
  readonly header: (name: string) => string | null
}

export type CallName = Exclude<EndpointName, StreamName>
type Methods = { readonly [N in CallName]: (input: Call<N>, options?: CallOptions) => Promise<Output<N>> }

export interface Client extends Methods {
  readonly call: <N extends CallName>(name: N, input: Call<N>, options?: CallOptions) => Promise<ClientResponse<Output<N> | Other<N>>>
  /** The next page is requested only after the previous one was consumed. */
  readonly pages: <N extends PagedName>(name: N, input: Call<N>, options?: PageOptions) => AsyncGenerator<Output<N>>
  readonly items: <N extends PagedName>(name: N, input: Call<N>, options?: PageOptions) => AsyncGenerator<PageItem<N>>
  /** Changes of resources; resumes by its cursor until the signal aborts or the loop ends. */
  readonly watch: (options: WatchOptions) => AsyncGenerator<WatchEvent>
}

const retriesDefault = 3
const timeoutMsDefault = 30_000

export function createClient(options: ClientOptions): Client {
  const call = (name: EndpointName, input: object, callOptions: CallOptions = {}) => performCall(options, name, input, callOptions)
  const methods = Object.fromEntries(
    (Object.keys(routes) as EndpointName[]).map((name) => [
      name,
      async (input: object, callOptions?: CallOptions) => (await call(name, input, callOptions)).body,
    ]),
  )
  const client = {
    ...methods,
    call,
    pages: (name: PagedName, input: object, page?: PageOptions) => readPages(client.call, name, input, page),
    items: (name: PagedName, input: object, page?: PageOptions) => readItems(client.call, name, input, page),
    watch: (watch: WatchOptions) => watchChanges({ baseUrl: options.baseUrl, headers: () => buildHeaders(options, {}) }, watch),
  } as unknown as Client
  return client
}

async function performCall(options: ClientOptions, name: EndpointName, input: object, call: CallOptions): Promise<ClientResponse<never>> {
  const retriesMax = options.retries ?? retriesDefault
  const request = buildRequest(options, name, input, call)
  for (let number = 1; ; number += 1) {
    try {
      return readAnswer(
        name,
        await sendOnce(options.transport ?? fetchTransport, request, call.timeoutMs ?? options.timeoutMs ?? timeoutMsDefault),
      )
    } catch (error) {
      if (!isCallError(error)) throw error
      const decision = decideRetry({ error, number, retriesMax, random: randomShare() })
      if (decision.do === 'fail') throw error
      await delay(decision.afterMs, call.signal)
    }
  }
}

const isCallError = (error: unknown): error is Parameters<typeof decideRetry>[0]['error'] =>
  error instanceof Error && (error.name === 'ApiError' || error.name === 'ConnectionError')

function buildRequest(options: ClientOptions, name: EndpointName, input: object, call: CallOptions): TransportRequest {
  const { params, query, body } = input as { params?: Record<string, unknown>; query?: Record<string, unknown>; body?: unknown }
  const [method = '', path = ''] = routes[name].split(' ')
  const key = method !== 'POST' ? undefined : (call.idempotencyKey ?? ((options.retries ?? retriesDefault) > 0 ? createKey() : undefined))
  return {
    method,
    url: options.baseUrl.replace(/\/+$/, '') + fillPath(path, params ?? {}) + toQueryText(query),
    headers: {
      accept: (textRoutes as Partial<Record<EndpointName, string>>)[name] ?? 'application/json',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(key === undefined ? {} : { 'idempotency-key': key }),
      ...buildHeaders(options, call.headers ?? {}),
    },
    body: body === undefined ? undefined : JSON.stringify(body),
    signal: call.signal,
  }
}

/** A call with another credential needs no PAK. */
const buildHeaders = (options: ClientOptions, headers: Record<string, string>): Record<string, string> => ({
  ...(options.pak === undefined || headers['authorization'] !== undefined ? {} : { authorization: `Bearer ${options.pak()}` }),
  ...(options.userAgent === undefined ? {} : { 'user-agent': options.userAgent }),
  ...headers,
})

function readAnswer(name: EndpointName, { status, header, text }: Answer): ClientResponse<never> {
  if (status >= 400) throw readApiError({ status, header }, text)
  const isEmpty = text === '' || status === 304
  const body: unknown = isEmpty ? undefined : name in textRoutes ? text : JSON.parse(text)
  return { status, body: body as never, header }
}
