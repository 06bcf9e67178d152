// A response body that is read while it arrives. Chunks are collected and taken together; a slow reader pauses the connection
// (backpressure).
import type { KubeResponse } from '../client/response-error.ts'

/** Bytes that are collected before the connection is paused. */
const PENDING_BYTES_MAX = 1024 * 1024

/** Control of the connection that carries the body. */
export interface Flow {
  abort(reason: Error): void
  pause(): void
  resume(): void
}

export class StreamedBody {
  readonly head: Promise<{ status: number; headers: KubeResponse['headers'] }>
  readonly #head = Promise.withResolvers<{ status: number; headers: KubeResponse['headers'] }>()
  #flow: Flow | undefined
  #chunks: Buffer[] = []
  #bytes = 0
  #ended = false
  #failure: Error | undefined
  #wake: (() => void) | undefined

  constructor() {
    this.head = this.#head.promise
    this.head.catch(() => undefined) // it may be rejected before a caller awaits it
  }

  /** Returns all chunks since the last call, at least one; undefined at the end. */
  async take(): Promise<Buffer[] | undefined> {
    if (this.#chunks.length === 0 && !this.#ended) await new Promise<void>((resolve) => (this.#wake = resolve))
    if (this.#chunks.length === 0) return this.#failure ? Promise.reject(this.#failure) : undefined
    const chunks = this.#chunks
    this.#chunks = []
    if (this.#bytes > PENDING_BYTES_MAX) this.#flow?.resume()
    this.#bytes = 0
    return chunks
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer> {
    for (let chunks = await this.take(); chunks; chunks = await this.take()) yield* chunks
  }

  /** Closes the connection too, because the length of the rest is unknown. */
  close(reason: Error): void {
    if (this.#ended) return
    this.#chunks = []
    this.#end(reason)
    this.#flow?.abort(reason)
  }

  onRequestStart(flow: Flow): void {
    this.#flow = flow
    if (this.#failure) flow.abort(this.#failure)
  }

  onResponseStart(_flow: Flow, status: number, headers: KubeResponse['headers']): void {
    this.#head.resolve({ status, headers })
  }

  onResponseData(flow: Flow, chunk: Buffer): void {
    if (this.#ended) return // aborted: ignores late chunks
    this.#chunks.push(chunk)
    const before = this.#bytes
    this.#bytes += chunk.length
    if (before <= PENDING_BYTES_MAX && this.#bytes > PENDING_BYTES_MAX) flow.pause()
    this.#wakeUp()
  }

  onResponseEnd(): void {
    this.#end(undefined)
  }

  onResponseError(_flow: Flow, error: Error): void {
    this.#end(error)
  }

  #end(failure: Error | undefined): void {
    if (this.#ended) return
    this.#ended = true
    this.#failure = failure
    if (failure) this.#head.reject(failure)
    this.#wakeUp()
  }

  #wakeUp(): void {
    this.#wake?.()
    this.#wake = undefined
  }
}
