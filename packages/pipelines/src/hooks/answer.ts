// What a route takes and returns. Handlers return answers; a Refusal thrown anywhere below them is an answer too.
import type { Connection } from './identity.ts'
import type { SignedRequest } from './signature.ts'

export interface HookRequest extends SignedRequest {
  readonly connection: Connection
  readonly query: URLSearchParams
  /** Aborted when the client is gone and at shutdown. */
  readonly signal: AbortSignal
}

export interface HookAnswer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  /** Text as it is, anything else as JSON; absent: an empty body. */
  readonly body?: unknown
}

export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly answer: HookAnswer

  constructor(status: number, message: string, more: { headers?: Record<string, string>; details?: Record<string, unknown> } = {}) {
    super(message)
    const headers = more.headers ?? {}
    this.answer = { status, headers, body: more.details === undefined ? `${message}\n` : { error: message, ...more.details } }
  }
}
