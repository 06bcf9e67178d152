// Sends one request. A program can pass a transport of its own instead of fetch, for example one that keeps connections open.
import { ConnectionError } from './errors.ts'

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

/** Browsers keep the session cookie to the own origin; a redirect could carry the PAK to another host. */
export const fetchTransport: Transport = async ({ method, url, headers, body, signal }) => {
  const response = await fetch(url, {
    method,
    headers,
    redirect: 'error',
    ...(body === undefined ? {} : { body }),
    ...(signal === undefined ? {} : { signal }),
  })
  return { status: response.status, header: (name) => response.headers.get(name), text: () => response.text() }
}

export interface Answer {
  readonly status: number
  readonly header: (name: string) => string | null
  readonly text: string
}

/** One attempt with its own time limit, up to the last byte of the answer. */
export async function sendOnce(transport: Transport, request: TransportRequest, timeoutMs: number): Promise<Answer> {
  const deadline = AbortSignal.timeout(timeoutMs)
  const signal = request.signal === undefined ? deadline : AbortSignal.any([request.signal, deadline])
  try {
    const response = await transport({ ...request, signal })
    return { status: response.status, header: response.header, text: await response.text() }
  } catch (error) {
    request.signal?.throwIfAborted()
    const cause = deadline.aborted ? new Error(`no answer within ${timeoutMs / 1000} s`) : findRootCause(error)
    throw new ConnectionError(originOf(request.url), cause)
  }
}

/** `fetch` reports "fetch failed" and hides the reason in its cause, for several addresses in a list of causes. */
export function findRootCause(error: unknown): Error {
  if (error instanceof AggregateError && error.errors[0] !== undefined) return findRootCause(error.errors[0])
  if (error instanceof Error && error.cause !== undefined) return findRootCause(error.cause)
  return error instanceof Error ? error : new Error(String(error))
}

export const originOf = (url: string): string => (URL.canParse(url) ? new URL(url).origin : url)

/** `/api/v1/agents/{id}` and {id} → the path on the wire; every value is percent-encoded. */
export function fillPath(path: string, params: Readonly<Record<string, unknown>>): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = params[name]
    if (typeof value !== 'string' || value === '') throw new TypeError(`path ${path} needs parameter ${name}`)
    return encodeURIComponent(value)
  })
}

/** Repeats the key for each item of a list and omits undefined. Returns '' or '?a=1&b=2'. */
export function toQueryText(query: Readonly<Record<string, unknown>> = {}): string {
  const search = new URLSearchParams()
  for (const [key, value] of Object.entries(query))
    for (const item of Array.isArray(value) ? value : [value]) if (item !== undefined) search.append(key, String(item))
  const text = search.toString()
  return text === '' ? '' : `?${text}`
}
