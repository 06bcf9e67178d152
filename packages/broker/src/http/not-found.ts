// A request no route takes: OPTIONS of a known path, a method it does not have, an unknown path of the API, or the page.
import { ApiError } from '@brokkr/contract/error.ts'
import type { ErrorAnswer } from './errors.ts'
import { answerOf } from './errors.ts'

export interface Page {
  readonly body: string
  readonly contentType: string
  readonly status?: number
  readonly headers?: Readonly<Record<string, string>>
}
export type PageHandler = (path: string) => Page | Promise<Page>

export interface UnroutedRequest {
  readonly method: string
  readonly path: string
}

export interface UnroutedDeps {
  readonly methodsOfPath: (path: string) => string[]
  readonly page: PageHandler
  /** Throws the 401 of a caller who is nobody: what a path of the API cannot do is told to those who may call it. */
  readonly authenticate: () => Promise<void>
}

export async function answerUnrouted(deps: UnroutedDeps, { method, path }: UnroutedRequest): Promise<ErrorAnswer> {
  const allowed = deps.methodsOfPath(path)
  if (allowed.length > 0) {
    if (method === 'OPTIONS') return optionsAnswer(allowed)
    if (isApiPath(path)) await deps.authenticate()
    return notAllowed(allowed)
  }
  if (isApiPath(path) || method === 'OPTIONS') return answerOf(new ApiError('route_not_found', 'no operation has this path'))
  const page = await deps.page(path)
  return { status: page.status ?? 200, headers: { 'content-type': page.contentType, ...page.headers }, body: page.body }
}

function optionsAnswer(allowed: readonly string[]): ErrorAnswer {
  return { status: 200, headers: { allow: allowed.join(', ') }, body: '' }
}

function notAllowed(allowed: readonly string[]): ErrorAnswer {
  const answer = answerOf(new ApiError('method_not_allowed', `this path has ${allowed.join(', ')}`))
  return { ...answer, headers: { ...answer.headers, allow: allowed.join(', ') } }
}

/** However it is written: doubled slashes, escapes and capitals must not turn a call of the API into a page. */
export function isApiPath(path: string): boolean {
  if (path.startsWith('/api/')) return true
  const plain = path
    .replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
    .replace(/[\\/]+/g, '/')
    .toLowerCase()
  return /^\/(api|internal)(\/|;|$)/.test(plain)
}
