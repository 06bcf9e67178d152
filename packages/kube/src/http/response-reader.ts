// Reads one whole response for undici's dispatch, with a time limit, a size limit and abort signals. No stream and no AbortController is
// created per request, because an apply sends thousands of small requests.
import type { Dispatcher } from 'undici'
import { KubeError } from '../client/kube-error.ts'
import type { KubeResponse } from '../client/response-error.ts'
import { BadCompression, decompress, isGzipped } from './decompress.ts'

export interface ResponseLimits {
  /** Method and address, for error messages. */
  readonly what: string
  readonly timeoutMs: number
  readonly bytesMax: number
  readonly signal: AbortSignal | undefined
  /** Called right before the request is written to its connection. If it throws, the request is not sent. */
  readonly guard: (() => void) | undefined
}

/** A reused connection closed before the first byte of the response, probably while the request was on its way. */
export class StaleConnection extends Error {
  override readonly name = 'StaleConnection'
  readonly code = 'ECONNRESET'
}

export class ResponseReader implements Dispatcher.DispatchHandler {
  readonly response: Promise<KubeResponse>
  /** Set by the client that carries the request; returns whether its connection carried an earlier one. */
  checkReuse: (() => boolean) | undefined
  readonly #limits: ResponseLimits
  readonly #inFlight: Set<ResponseReader>
  readonly #resolve: (response: KubeResponse) => void
  readonly #reject: (reason: unknown) => void
  readonly #timer: NodeJS.Timeout
  readonly #body = new ByteCollector()
  #controller: Dispatcher.DispatchController | undefined
  #onAbort: (() => void) | undefined
  #isSettled = false
  #isReused = false
  #hasStarted = false
  #status = 0
  #headers: KubeResponse['headers'] = {}

  constructor(limits: ResponseLimits, inFlight: Set<ResponseReader>) {
    const { promise, resolve, reject } = Promise.withResolvers<KubeResponse>()
    this.response = promise
    this.#limits = limits
    this.#inFlight = inFlight
    this.#resolve = resolve
    this.#reject = reject
    inFlight.add(this)
    this.#timer = setTimeout(() => this.fail(timedOut(limits)), limits.timeoutMs)
    const { signal } = limits
    if (signal?.aborted) this.fail(signal.reason)
    else if (signal) {
      this.#onAbort = () => this.fail(signal.reason)
      signal.addEventListener('abort', this.#onAbort, { once: true })
    }
  }

  get isSettled(): boolean {
    return this.#isSettled
  }

  /** Rejects the response and closes its connection, because the rest of the response would follow on it. */
  fail(reason: unknown): void {
    if (this.#isSettled) return
    this.#settle()
    this.#reject(reason)
    this.#controller?.abort(reason instanceof Error ? reason : new Error('aborted', { cause: reason }))
  }

  /** undici calls this with an open connection, before it writes. A throw drops the request and keeps the connection. */
  onRequestStart(controller: Dispatcher.DispatchController): void {
    if (this.#isSettled) throw new Error('the request was aborted before it was sent')
    this.#limits.guard?.()
    this.#isReused = this.checkReuse?.() ?? false
    this.#controller = controller
  }

  onResponseStarted(): void {
    this.#hasStarted = true
  }

  onResponseStart(_controller: Dispatcher.DispatchController, status: number, headers: KubeResponse['headers']): void {
    this.#status = status
    this.#headers = headers
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#isSettled) return
    if (this.#body.length + chunk.length > this.#limits.bytesMax) this.fail(tooLarge(this.#limits))
    else this.#body.push(chunk)
  }

  onResponseEnd(): void {
    if (this.#isSettled) return
    this.#settle()
    try {
      this.#resolve({ status: this.#status, headers: this.#headers, text: this.#readText() })
    } catch (error) {
      this.#reject(error)
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    if (this.#isSettled) return
    this.#settle()
    this.#reject(this.#explain(error))
  }

  #explain(error: Error & { code?: unknown }): Error {
    const isClosed = error.code === 'UND_ERR_SOCKET' || error.code === 'ECONNRESET' || error.code === 'EPIPE'
    if (isClosed && this.#isReused && !this.#hasStarted) return new StaleConnection(error.message, { cause: error })
    if (this.#status === 0 && isMalformed(error)) return malformed(this.#limits, error)
    return error
  }

  /** The size limit holds for the decompressed text too. */
  #readText(): string {
    const bytes = this.#body.bytes()
    if (!isGzipped(this.#headers)) return bytes.toString('utf8')
    try {
      return decompress(bytes, this.#limits.bytesMax).toString('utf8')
    } catch (error) {
      if (!(error instanceof BadCompression)) throw tooLarge(this.#limits)
      throw new KubeError(`${this.#limits.what}: ${error.message}`, { reason: 'BadAnswer', cause: error })
    }
  }

  #settle(): void {
    this.#isSettled = true
    this.#inFlight.delete(this)
    clearTimeout(this.#timer)
    if (this.#onAbort) this.#limits.signal?.removeEventListener('abort', this.#onAbort)
  }
}

/** Joins chunks in one buffer that grows by doubling, so that a response in tiny chunks does not cost an object per chunk. */
class ByteCollector {
  length = 0
  #buffer: Buffer | undefined
  #isOwned = false

  push(chunk: Buffer): void {
    const length = this.length + chunk.length
    if (this.#buffer === undefined)
      this.#buffer = chunk // most responses are one chunk: no copy
    else {
      if (!this.#isOwned || length > this.#buffer.length) {
        const grown = Buffer.allocUnsafeSlow(Math.max(length * 2, 4096))
        this.#buffer.copy(grown, 0, 0, this.length)
        this.#buffer = grown
        this.#isOwned = true
      }
      chunk.copy(this.#buffer, this.length)
    }
    this.length = length
  }

  bytes(): Buffer {
    return this.#buffer?.subarray(0, this.length) ?? Buffer.alloc(0)
  }
}

/** undici's codes, while headers are read, for a malformed header after Content-Length, and for an unexpected status (100, 101). */
const isMalformed = ({ code, message }: Error & { code?: unknown }): boolean =>
  code === 'UND_ERR_RES_CONTENT_LENGTH_MISMATCH' || (code === 'UND_ERR_SOCKET' && message.startsWith('bad '))

const timedOut = ({ what, timeoutMs }: ResponseLimits): KubeError =>
  new KubeError(`${what}: no answer within ${timeoutMs} ms`, { reason: 'TimedOut' })

const tooLarge = ({ what, bytesMax }: ResponseLimits): KubeError =>
  new KubeError(`${what}: the response is larger than ${bytesMax} bytes; request smaller pages`, { reason: 'AnswerTooLarge' })

const malformed = ({ what }: ResponseLimits, cause: Error): KubeError =>
  new KubeError(`${what}: the response is not valid HTTP/1.1: ${cause.message}`, { reason: 'BadAnswer', cause })
