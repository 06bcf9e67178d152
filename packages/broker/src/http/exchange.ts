// One request and its answer while they are under way: who sent it, when it has taken too long, what the handler wants said
// beside its value, and whether somebody has answered already.
import type { IncomingMessage, ServerResponse } from 'node:http'
import { ApiError } from '@brokkr/contract/error.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { ClientGone } from './client-gone.ts'
import { answered, type Caller, type ReplyControl } from './handler.ts'

export interface Exchange extends Caller {
  readonly request: IncomingMessage
  readonly path: string
  readonly query: string
  readonly rawParams: Readonly<Record<string, string>>
  readonly signal: AbortSignal
  readonly reply: ReplyControl
  /** What `reply` was told so far. */
  readonly said: Said
  /** The value of `work`, or the reason of the signal as soon as it is aborted. */
  race<T>(work: Promise<T>): Promise<T>
  /** Ends it with an error, whatever it is waiting for. */
  fail(error: Error): void
  /** The answer is out: no timer is left behind. */
  end(): void
}

export interface Said {
  readonly headers: Record<string, string>
  status: number | null
  answer:
    | { readonly is: 'text'; readonly contentType: string; readonly text: string }
    | { readonly is: 'empty'; readonly status: number }
    | { readonly is: 'hijacked' }
    | null
}

export interface ExchangeParts extends Caller, Pick<Exchange, 'request' | 'path' | 'query' | 'rawParams'> {
  readonly response: ServerResponse
  readonly timeoutMs: number
  readonly hijack: () => void
}

export function openExchange(deps: { clock: Clock }, parts: ExchangeParts): Exchange {
  const { response, timeoutMs, hijack, ...rest } = parts
  const controller = new AbortController()
  const said: Said = { headers: {}, status: null, answer: null }
  const timer = deps.clock.setTimer(timeoutMs, () => controller.abort(tooSlow(timeoutMs)))
  const onClose = () => controller.abort(new ClientGone())
  response.once('close', onClose)
  const end = () => {
    timer.cancel()
    response.off('close', onClose)
  }
  const takeOver = () => {
    // Too late: the caller has its answer, or is gone.
    controller.signal.throwIfAborted()
    end()
    said.answer = { is: 'hijacked' }
    for (const [name, value] of Object.entries(said.headers)) response.setHeader(name, value)
    hijack()
    return { request: parts.request, response }
  }
  return {
    ...rest,
    signal: controller.signal,
    said,
    reply: controlOf(said, takeOver),
    race: (work) => raced(controller.signal, work),
    fail: (error) => controller.abort(error),
    end,
  }
}

function controlOf(said: Said, hijack: ReplyControl['hijack']): ReplyControl {
  return {
    setHeader: (name, value) => void (said.headers[name.toLowerCase()] = value),
    setStatus: (status) => void (said.status = status),
    empty: (status) => {
      said.answer = { is: 'empty', status }
      return answered
    },
    text: (contentType, text) => {
      said.answer = { is: 'text', contentType, text }
      return answered
    },
    hijack,
  }
}

async function raced<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  signal.throwIfAborted()
  const { promise, reject } = Promise.withResolvers<never>()
  const abort = () => reject(signal.reason as Error)
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

function tooSlow(timeoutMs: number): ApiError {
  return new ApiError('timeout', `no answer was ready within ${timeoutMs / 1000} s; try again`, {
    details: { limit: 'handler_seconds', max: timeoutMs / 1000 },
  })
}
