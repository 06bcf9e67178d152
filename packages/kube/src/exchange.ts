// One request and its whole answer, gathered as it arrives. No stream and no signal of its own is made for it: most calls are small,
// and there are many of them.
import type { Dispatcher } from 'undici'
import type { Answer } from './answer-error.ts'
import { BadPacking, isPacked, unpack } from './unpack.ts'

export interface ExchangeLimits {
  timeoutMs: number
  bytesMax: number
  /** What is thrown when one of them is passed. */
  timedOut(): Error
  tooLarge(): Error
  badPacking(cause: Error): Error
  signal: AbortSignal | undefined
}

export interface Exchanges {
  send(agent: Dispatcher, request: Dispatcher.DispatchOptions, limits: ExchangeLimits): Promise<Answer>
}

/** `ending` gives up whatever is under way. */
export function createExchanges(ending: AbortSignal): Exchanges {
  const open = new Set<Exchange>()
  ending.addEventListener('abort', () => open.forEach((exchange) => exchange.giveUp(ending.reason as Error)), { once: true })
  return {
    send(agent, request, limits) {
      const exchange = new Exchange(limits)
      open.add(exchange)
      if (ending.aborted) exchange.giveUp(ending.reason as Error)
      else agent.dispatch(request, exchange)
      return exchange.answer.finally(() => open.delete(exchange))
    },
  }
}

class Exchange implements Dispatcher.DispatchHandler {
  readonly answer: Promise<Answer>
  readonly #limits: ExchangeLimits
  readonly #resolve: (answer: Answer) => void
  readonly #reject: (reason: Error) => void
  readonly #timer: NodeJS.Timeout
  readonly #abort = (): void => this.giveUp(this.#limits.signal?.reason as Error)
  readonly #chunks: Buffer[] = []
  #bytes = 0
  #status = 0
  #headers: Answer['headers'] = {}
  #controller: Dispatcher.DispatchController | undefined
  #failure: Error | undefined

  constructor(limits: ExchangeLimits) {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    this.answer = promise
    this.#limits = limits
    this.#resolve = resolve
    this.#reject = reject
    this.#timer = setTimeout(() => this.giveUp(limits.timedOut()), limits.timeoutMs)
    if (limits.signal?.aborted) this.giveUp(limits.signal.reason as Error)
    else limits.signal?.addEventListener('abort', this.#abort, { once: true })
  }

  /** Takes the connection with it, because nobody knows how much is still to come; what has not left yet never leaves. */
  giveUp(reason: Error): void {
    this.#failure ??= reason
    this.#controller?.abort(reason)
    this.#end(() => this.#reject(reason))
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#failure) controller.abort(this.#failure)
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: Answer['headers']): void {
    this.#status = status
    this.#headers = headers
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#bytes += chunk.length
    if (this.#bytes > this.#limits.bytesMax) this.giveUp(this.#limits.tooLarge())
    else this.#chunks.push(chunk)
  }

  onResponseEnd(): void {
    const [first] = this.#chunks
    const bytes = this.#chunks.length === 1 && first ? first : Buffer.concat(this.#chunks, this.#bytes)
    try {
      const text = isPacked(this.#headers) ? this.#unpack(bytes) : bytes.toString('utf8')
      this.#end(() => this.#resolve({ status: this.#status, headers: this.#headers, text }))
    } catch (error) {
      this.#end(() => this.#reject(error as Error))
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    this.#end(() => this.#reject(error))
  }

  /** The bound holds for what comes out as well. */
  #unpack(bytes: Buffer): string {
    try {
      return unpack(bytes, this.#limits.bytesMax).toString('utf8')
    } catch (error) {
      throw error instanceof BadPacking ? this.#limits.badPacking(error) : this.#limits.tooLarge()
    }
  }

  /** Whatever comes first is the end of it. */
  #end(settle: () => void): void {
    clearTimeout(this.#timer)
    this.#limits.signal?.removeEventListener('abort', this.#abort)
    settle()
  }
}
