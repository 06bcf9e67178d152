// Error types that tell the catcher what to do: give up, retry, report as missing or as conflict. The message is for operators and
// names the attempt; `code` is for programs.

export type FailureDetails = { cause?: unknown; code?: string }

/** Base of the four types. Catch the types, not the base. */
export abstract class Failure extends Error {
  readonly code: string | undefined

  constructor(message: string, details: FailureDetails = {}) {
    super(message, 'cause' in details ? { cause: details.cause } : undefined)
    this.name = new.target.name
    this.code = details.code
  }
}

/** Trying again with the same input cannot help. */
export class Terminal extends Failure {}

/** The same attempt can succeed later; `afterMs` is the wait that the peer requested. */
export class Retryable extends Failure {
  readonly afterMs: number | undefined

  constructor(message: string, details: FailureDetails & { afterMs?: number } = {}) {
    super(message, details)
    this.afterMs = details.afterMs
  }
}

export class NotFound extends Failure {
  readonly kind: string
  readonly id: string

  constructor(kind: string, id: string, details: FailureDetails = {}) {
    super(`${kind} ${id} does not exist`, details)
    this.kind = kind
    this.id = id
  }
}

/** Another writer changed the resource first. */
export class Conflict extends Failure {}

/** True if the same attempt can succeed later. Unclassified errors count as bugs and are not retried. */
export function isRetryable(error: unknown): boolean {
  for (const link of causes(error)) {
    if (link instanceof Retryable) return true
    if (link instanceof Failure) return false
    if (hasTransientCode(link)) return true
  }
  return false
}

/** Converts the unknown value of a `catch` to an Error. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(typeof thrown === 'string' ? thrown : `thrown value of type ${typeof thrown}`)
}

/** "attempt: cause: root cause", each part once. */
export function errorText(error: unknown): string {
  const parts = causes(error).map((link) => toError(link).message)
  return parts.filter((part, index) => part !== '' && part !== parts[index - 1]).join(': ')
}

const causesMax = 8

function causes(error: unknown): unknown[] {
  const chain: unknown[] = []
  for (
    let link = error;
    link !== undefined && link !== null && chain.length < causesMax;
    link = link instanceof Error ? link.cause : undefined
  ) {
    chain.push(link)
  }
  return chain
}

/** Codes of Node and undici for peers and networks that can recover. */
const transientCodes: ReadonlySet<unknown> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ENETDOWN',
  'EAI_AGAIN',
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
  'UND_ERR_SOCKET',
])

function hasTransientCode(link: unknown): boolean {
  return link instanceof Error && 'code' in link && transientCodes.has(link.code)
}
