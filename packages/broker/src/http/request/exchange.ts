// One request and its response while in progress: caller, time limit, response overrides of the handler, and whether a response was
// sent already.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { ApiError, type ErrorCode } from '@brokkr/contract/errors.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { answered, type Caller, type ReplyControl } from '../server/handler.ts'
import { ClientGone } from './read-body.ts'

export interface ResponseOverrides {
  readonly headers: Record<string, string>
  status: number | null
  /** Part of the request was denied with this code. */
  denied: ErrorCode | null
  answer:
    | { readonly is: 'text'; readonly contentType: string; readonly text: string }
    | { readonly is: 'empty'; readonly status: number }
    | { readonly is: 'pages'; readonly pages: AsyncIterable<readonly object[]> }
    | { readonly is: 'hijacked' }
    | null
}

export interface ExchangeParts extends Caller {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly path: string
  readonly query: string
  readonly rawParams: Readonly<Record<string, string>>
  readonly timeoutMs: number
  readonly hijack: () => void
}

/** A class whose members are created on first use, because every request has one: closures and accessors of an object literal cost
 *  more than parsing a statement. */
export class Exchange implements Caller {
  readonly request: IncomingMessage
  readonly path: string
  readonly query: string
  readonly rawParams: Readonly<Record<string, string>>
  readonly requestId: string
  readonly clientAddress: string
  readonly userAgent: string | null
  /** Response overrides set through `reply`. */
  readonly overrides: ResponseOverrides = { headers: {}, status: null, denied: null, answer: null }
  readonly reply: ReplyControl
  readonly #parts: ExchangeParts
  readonly #timer: { cancel(): void }
  readonly #onClose = (): void => this.fail(new ClientGone())
  #reason: Error | null = null
  #controller: AbortController | null = null
  #failed: PromiseWithResolvers<never> | null = null

  constructor(deps: { clock: Clock }, parts: ExchangeParts) {
    this.#parts = parts
    this.request = parts.request
    this.path = parts.path
    this.query = parts.query
    this.rawParams = parts.rawParams
    this.requestId = parts.requestId
    this.clientAddress = parts.clientAddress
    this.userAgent = parts.userAgent
    this.reply = new Reply(this.overrides, this)
    this.#timer = deps.clock.setTimer(parts.timeoutMs, () => this.fail(tooSlow(parts.timeoutMs)))
    parts.response.on('close', this.#onClose)
  }

  /** Aborted when the exchange fails. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#reason !== null) this.#controller.abort(this.#reason)
    return this.#controller.signal
  }

  /** Resolves with the result of `work`; rejects as soon as the exchange fails. */
  race<T>(work: Promise<T>): Promise<T> {
    this.#failed ??= Promise.withResolvers<never>()
    if (this.#reason !== null) this.#failed.reject(this.#reason)
    // An earlier failure wins over finished work.
    return Promise.race([this.#failed.promise, work])
  }

  /** Ends the exchange with an error in every state. */
  fail(error: Error): void {
    if (this.#reason !== null) return
    this.#reason = error
    this.#failed?.reject(error)
    this.#controller?.abort(error)
  }

  /** Called when the response was sent: stops all timers. */
  end(): void {
    this.#timer.cancel()
    this.#parts.response.off('close', this.#onClose)
  }

  throwIfFailed(): void {
    if (this.#reason !== null) throw this.#reason
  }

  takeOver(): { request: IncomingMessage; response: ServerResponse } {
    const { request, response } = this.#parts
    // Too late: the client has its response or disconnected.
    this.throwIfFailed()
    this.end()
    this.overrides.answer = { is: 'hijacked' }
    for (const [name, value] of Object.entries(this.overrides.headers)) response.setHeader(name, value)
    this.#parts.hijack()
    return { request, response }
  }
}

class Reply implements ReplyControl {
  readonly #overrides: ResponseOverrides
  readonly #exchange: Exchange

  constructor(overrides: ResponseOverrides, exchange: Exchange) {
    this.#overrides = overrides
    this.#exchange = exchange
  }

  setHeader(name: string, value: string): void {
    this.#overrides.headers[name.toLowerCase()] = value
  }

  setStatus(status: number): void {
    this.#overrides.status = status
  }

  deniedPart(code: ErrorCode): void {
    this.#overrides.denied = code
  }

  empty(status: number): typeof answered {
    this.#overrides.answer = { is: 'empty', status }
    return answered
  }

  text(contentType: string, text: string): typeof answered {
    this.#overrides.answer = { is: 'text', contentType, text }
    return answered
  }

  pages(pages: AsyncIterable<readonly object[]>): typeof answered {
    this.#overrides.answer = { is: 'pages', pages }
    return answered
  }

  hijack(): { request: IncomingMessage; response: ServerResponse } {
    return this.#exchange.takeOver()
  }
}

function tooSlow(timeoutMs: number): ApiError {
  return new ApiError('timeout', `the request was not completed within ${timeoutMs / 1000} s; try again`, {
    details: { limit: 'handler_seconds', max: timeoutMs / 1000 },
  })
}
