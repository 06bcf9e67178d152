// How a failure says what its catcher may do next: give up, try again, tell the caller that a thing is missing or has changed.
// The message is for an operator and says what was attempted; `code` is for programs.

export type FailureDetails = { cause?: unknown; code?: string }

/** What the four kinds share; catch the kinds, not this. */
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

/** The same attempt may succeed later; `afterMs` is how long the other side asked us to wait. */
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

/** Somebody else changed or took the thing first. */
export class Conflict extends Failure {}

/** Whether the same attempt is worth repeating. What nobody classified is not: a bug repeated is still a bug. */
export function isRetryable(error: unknown): boolean {
  for (const link of causes(error)) {
    if (link instanceof Retryable) return true
    if (link instanceof Failure) return false
    if (hasTransientCode(link)) return true
  }
  return false
}

/** `catch` hands out unknown; the log and our own errors want an Error. */
export function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(typeof thrown === 'string' ? thrown : `thrown value of type ${typeof thrown}`)
}

/** "what was attempted: why it failed: what lay beneath", each part once. */
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

/** Node's and undici's codes for a peer or a network that may be back in a moment. */
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
