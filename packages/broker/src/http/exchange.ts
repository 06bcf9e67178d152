// One request and its answer while they are under way: who sent it, when it has taken too long, what the handler wants said
// beside its value, and whether somebody has answered already.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { ApiError, type ErrorCode } from '@brokkr/contract/error.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { ClientGone } from './client-gone.ts'
import { answered, type Caller, type ReplyControl } from './handler.ts'

export interface Said {
  readonly headers: Record<string, string>
  status: number | null
  /** Part of the call was denied, with this code. */
  denied: ErrorCode | null
  answer:
    | { readonly is: 'text'; readonly contentType: string; readonly text: string }
    | { readonly is: 'empty'; readonly status: number }
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

/** A class, and nothing made before somebody needs it, because every call has one: closures and accessors of an object literal cost
 *  more here than the statement's own parsing. */
export class Exchange implements Caller {
  readonly request: IncomingMessage
  readonly path: string
  readonly query: string
  readonly rawParams: Readonly<Record<string, string>>
  readonly requestId: string
  readonly clientAddress: string
  readonly userAgent: string | null
  /** What `reply` was told so far. */
  readonly said: Said = { headers: {}, status: null, denied: null, answer: null }
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
    this.reply = new Reply(this.said, this)
    this.#timer = deps.clock.setTimer(parts.timeoutMs, () => this.fail(tooSlow(parts.timeoutMs)))
    parts.response.on('close', this.#onClose)
  }

  /** Aborted when it fails. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#reason !== null) this.#controller.abort(this.#reason)
    return this.#controller.signal
  }

  /** The value of `work`, or the failure as soon as there is one. */
  race<T>(work: Promise<T>): Promise<T> {
    this.#failed ??= Promise.withResolvers<never>()
    if (this.#reason !== null) this.#failed.reject(this.#reason)
    // A failure that was there before wins over work that is done already.
    return Promise.race([this.#failed.promise, work])
  }

  /** Ends it with an error, whatever it is waiting for. */
  fail(error: Error): void {
    if (this.#reason !== null) return
    this.#reason = error
    this.#failed?.reject(error)
    this.#controller?.abort(error)
  }

  /** The answer is out: no timer is left behind. */
  end(): void {
    this.#timer.cancel()
    this.#parts.response.off('close', this.#onClose)
  }

  throwIfFailed(): void {
    if (this.#reason !== null) throw this.#reason
  }

  takeOver(): { request: IncomingMessage; response: ServerResponse } {
    const { request, response } = this.#parts
    // Too late: the caller has its answer, or is gone.
    this.throwIfFailed()
    this.end()
    this.said.answer = { is: 'hijacked' }
    for (const [name, value] of Object.entries(this.said.headers)) response.setHeader(name, value)
    this.#parts.hijack()
    return { request, response }
  }
}

class Reply implements ReplyControl {
  readonly #said: Said
  readonly #exchange: Exchange

  constructor(said: Said, exchange: Exchange) {
    this.#said = said
    this.#exchange = exchange
  }

  setHeader(name: string, value: string): void {
    this.#said.headers[name.toLowerCase()] = value
  }

  setStatus(status: number): void {
    this.#said.status = status
  }

  deniedPart(code: ErrorCode): void {
    this.#said.denied = code
  }

  empty(status: number): typeof answered {
    this.#said.answer = { is: 'empty', status }
    return answered
  }

  text(contentType: string, text: string): typeof answered {
    this.#said.answer = { is: 'text', contentType, text }
    return answered
  }

  hijack(): { request: IncomingMessage; response: ServerResponse } {
    return this.#exchange.takeOver()
  }
}

function tooSlow(timeoutMs: number): ApiError {
  return new ApiError('timeout', `no answer was ready within ${timeoutMs / 1000} s; try again`, {
    details: { limit: 'handler_seconds', max: timeoutMs / 1000 },
  })
}
