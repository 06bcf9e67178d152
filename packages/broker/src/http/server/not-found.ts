// Requests that match no route: OPTIONS, a wrong method, an unknown API path, or the console page.
import { ApiError } from '@brokkr/contract/errors.ts'
import { type ErrorResponse, toResponse } from '../response/errors.ts'
import type { HttpResponse } from '../response/send-response.ts'

export interface Page {
  readonly body: string | Buffer
  readonly contentType: string
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
}
/** `acceptEncoding`: the encodings that the client accepts, as in its header. */
export type PageHandler = (path: string, acceptEncoding?: string) => Page | Promise<Page>

export interface UnroutedRequest {
  readonly method: string
  readonly path: string
  readonly acceptEncoding?: string | undefined
}

export interface UnroutedDeps {
  readonly methodsOfPath: (path: string) => string[]
  readonly page: PageHandler
  /** Throws 401 for an unauthenticated caller: only authenticated callers learn which API paths exist. */
  readonly authenticate: () => Promise<void>
}

export async function respondUnrouted(deps: UnroutedDeps, { method, path, acceptEncoding }: UnroutedRequest): Promise<HttpResponse> {
  const allowed = deps.methodsOfPath(path)
  if (allowed.length > 0) {
    if (method === 'OPTIONS') return optionsAnswer(allowed)
    if (isApiPath(path)) await deps.authenticate()
    return notAllowed(allowed)
  }
  if (isApiPath(path) || method === 'OPTIONS') return toResponse(new ApiError('route_not_found', 'no operation with this path exists'))
  const page = await deps.page(path, acceptEncoding)
  return { status: page.status ?? 200, headers: { 'content-type': page.contentType, ...page.headers }, body: page.body }
}

function optionsAnswer(allowed: readonly string[]): ErrorResponse {
  return { status: 200, headers: { allow: allowed.join(', ') }, body: '' }
}

function notAllowed(allowed: readonly string[]): ErrorResponse {
  const answer = toResponse(new ApiError('method_not_allowed', `this path supports ${allowed.join(', ')}`))
  return { ...answer, headers: { ...answer.headers, allow: allowed.join(', ') } }
}

/** Also recognizes doubled slashes, escapes and capitals, so that no API request is answered with the page. */
export function isApiPath(path: string): boolean {
  if (path.startsWith('/api/')) return true
  const plain = path
    .replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replace(/[\\/]+/g, '/')
    .toLowerCase()
  return /^\/(api|internal)(\/|;|$)/.test(plain)
}
