// One request and its whole answer. No stream and no signal of its own is made for it: most calls are small, and there are many of them.
import type { Answer } from './answer-error.ts'
import { AnswerReader } from './http-answer.ts'
import { BadPacking, isPacked, unpack } from './unpack.ts'

/** What leaves, as it stands on the wire. */
export interface CallText {
  /** The first line and all headers but the length of the body. */
  readonly head: string
  readonly body: string | Uint8Array | undefined
  /** Called right before the bytes leave; a throw keeps them here. */
  readonly guard: (() => void) | undefined
}

export interface ExchangeLimits {
  timeoutMs: number
  bytesMax: number
  /** What is thrown when one of them is passed. */
  timedOut(): Error
  tooLarge(): Error
  badPacking(cause: Error): Error
  signal: AbortSignal | undefined
}

/** Where an exchange takes place. */
export interface Line {
  /** Asks for a connection; it calls `begin`, or `fail` where there is none. */
  carry(exchange: Exchange): void
}

export interface Exchanges {
  send(line: Line, call: CallText, limits: ExchangeLimits): Promise<Answer>
}

/** `ending` gives up whatever is under way. */
export function createExchanges(ending: AbortSignal): Exchanges {
  const open = new Set<Exchange>()
  ending.addEventListener('abort', () => open.forEach((exchange) => exchange.fail(ending.reason as Error)), { once: true })
  return {
    send(line, call, limits) {
      const exchange = new Exchange(call, limits, open)
      if (ending.aborted) exchange.fail(ending.reason as Error)
      else if (!exchange.isOver) line.carry(exchange)
      return exchange.answer
    },
  }
}

export class Exchange {
  readonly answer: Promise<Answer>
  readonly call: CallText
  isOver = false
  readonly #open: Set<Exchange>
  readonly #limits: ExchangeLimits
  readonly #resolve: (answer: Answer) => void
  readonly #reject: (reason: Error) => void
  readonly #timer: NodeJS.Timeout
  readonly #reader = new AnswerReader()
  #onAbort: (() => void) | undefined
  /** Takes the connection along. */
  #drop: ((reason: Error) => void) | undefined

  constructor(call: CallText, limits: ExchangeLimits, open: Set<Exchange>) {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    this.answer = promise
    this.call = call
    this.#open = open
    this.#limits = limits
    this.#resolve = resolve
    this.#reject = reject
    open.add(this)
    this.#timer = setTimeout(() => this.fail(limits.timedOut()), limits.timeoutMs)
    const { signal } = limits
    if (signal?.aborted) this.fail(signal.reason as Error)
    else if (signal) {
      this.#onAbort = () => this.fail(signal.reason as Error)
      signal.addEventListener('abort', this.#onAbort, { once: true })
    }
  }

  /** It has a connection now, which `drop` gives up. */
  begin(drop: (reason: Error) => void): void {
    this.#drop = drop
  }

  /** What came over its connection; true: that was all of it. The bytes are read at once. */
  take(bytes: Buffer): boolean {
    try {
      const isWhole = this.#reader.push(bytes)
      if (this.#reader.bytes > this.#limits.bytesMax) throw this.#limits.tooLarge()
      if (isWhole) this.#complete()
      return isWhole
    } catch (error) {
      this.fail(error as Error)
      return false
    }
  }

  /** The connection has ended; true: and with it the answer. */
  ended(): boolean {
    if (!this.#reader.end()) return false
    this.#complete()
    return true
  }

  /** Another call may follow on its connection. */
  get isKept(): boolean {
    return this.#reader.isKept
  }

  /** Takes the connection with it, because nobody knows how much is still to come; what has not left yet never leaves. */
  fail(reason: Error): void {
    if (this.isOver) return
    this.#end()
    this.#reject(reason)
    this.#drop?.(reason)
  }

  #complete(): void {
    const { status, headers } = this.#reader
    try {
      const text = this.#text(this.#reader.body())
      this.#end()
      this.#resolve({ status, headers, text })
    } catch (error) {
      this.#end()
      this.#reject(error as Error)
    }
  }

  /** The bound holds for what comes out as well. */
  #text(bytes: Buffer): string {
    if (!isPacked(this.#reader.headers)) return bytes.toString('utf8')
    try {
      return unpack(bytes, this.#limits.bytesMax).toString('utf8')
    } catch (error) {
      throw error instanceof BadPacking ? this.#limits.badPacking(error) : this.#limits.tooLarge()
    }
  }

  /** Whatever comes first is the end of it. */
  #end(): void {
    this.isOver = true
    this.#open.delete(this)
    clearTimeout(this.#timer)
    if (this.#onAbort) this.#limits.signal?.removeEventListener('abort', this.#onAbort)
  }
}
