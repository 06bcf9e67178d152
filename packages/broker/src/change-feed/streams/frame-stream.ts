// One streaming response: a queue that keeps the latest frame per key, backpressure, bookmarks that wait for the frames they cover,
// pings, and an end with a reason. It knows frames, not the database.
import type { ServerResponse } from 'node:http'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { covers, type DatabaseSnapshot } from '../reader/cursor.ts'
import { contentTypes, encodeFrame, FrameWriter, type StreamFormat, sseRetry } from './frame-writer.ts'
import { getBookmarkFrame, toWireFrame, type WireFrame } from './frames.ts'

export type ByeReason = 'drain' | 'lifetime' | 'slow' | 'revoked' | 'epoch' | 'stale' | 'overloaded'
export type CloseReason = ByeReason | 'gone' | 'polled'
export interface StreamLimits {
  readonly queueKeys: number
  readonly queueBytes: number
  readonly slowMs: number
}
export interface StreamOptions {
  readonly format: StreamFormat
  /** End of its lifetime by the monotonic clock, and the reason of its `bye` frame then. */
  readonly endsAtMs: number
  readonly endsAs: 'lifetime' | 'revoked'
  /** Set for a long poll: it ends with the first bookmark after a change, or with a bookmark at this time. */
  readonly pollEndsAtMs: number | null
  readonly limits: StreamLimits
  readonly onFrame: (type: string) => void
  readonly onClosed: (reason: CloseReason) => void
}

/** Frames are written together until they exceed this size. */
const writeBytes = 64 * 1024

export class FrameStream {
  state: 'starting' | 'live' | 'closed' = 'starting'
  /** Database snapshot of the start; older bookmarks must not be sent. */
  startedAt: DatabaseSnapshot | null = null
  readonly openedAtMs: number
  readonly #response: ServerResponse
  readonly #writer: FrameWriter
  readonly #clock: Clock
  readonly #options: StreamOptions
  readonly #queue = new Map<string, WireFrame>()
  #queuedBytes = 0
  #bookmark: string | null = null
  #sentCursor: string | null = null
  #hasChanges = false
  /** Set while the stream drains: it ends after its next bookmark, and the client waits this long before it reconnects. */
  #drainRetryMs: number | null = null
  #lastWriteMs: number
  #blockedSinceMs: number | null = null

  constructor(response: ServerResponse, clock: Clock, options: StreamOptions) {
    this.#response = response
    this.#writer = new FrameWriter(response, options.format, () => this.#onDrain())
    this.#clock = clock
    this.#options = options
    this.openedAtMs = clock.monotonicMs()
    this.#lastWriteMs = this.openedAtMs
    response.on('close', () => this.#finish('gone'))
    response.on('error', () => this.#finish('gone'))
  }

  get queuedBytes(): number {
    return this.#queuedBytes
  }

  get queuedKeys(): number {
    return this.#queue.size
  }

  /** Writes the response head and the hello frame, which does not end a long poll. */
  sendHello(hello: WireFrame): void {
    const { format, pollEndsAtMs } = this.#options
    this.#response.writeHead(200, {
      'content-type': contentTypes[format],
      'cache-control': 'no-store, no-transform',
      'x-accel-buffering': 'no',
      // A stream is the last response of its connection; a long poll keeps it.
      ...(pollEndsAtMs === null ? { connection: 'close' } : {}),
    })
    this.#response.socket?.setNoDelay(true)
    if (format === 'sse') this.#response.write(sseRetry)
    this.#send(hello)
  }

  /** For frames of a start: writes at once, ahead of the queue, and waits while the socket is full. */
  async write(frame: WireFrame): Promise<void> {
    this.#hasChanges = true
    if (!this.#send(frame) && this.state !== 'closed') await this.#waitForDrain()
  }

  /**
   * Keeps the latest frame per key and moves the key to the end, so that frames keep the order of their loads. Queued frames are
   * written with the next bookmark or `flush`, in as few writes as possible.
   */
  queue(key: string, frame: WireFrame): void {
    if (this.state === 'closed') return
    this.#hasChanges = true
    this.#queuedBytes += frame.line.length - (this.#queue.get(key)?.line.length ?? 0)
    this.#queue.delete(key)
    this.#queue.set(key, frame)
    if (!this.#isFull()) return
    this.flush()
    if (this.#isFull()) this.end('slow', 0)
  }

  /** Queues a bookmark; it is written after all frames queued before it. */
  bookmark(cursor: string, at: DatabaseSnapshot): void {
    if (this.#acceptsBookmark(cursor, at)) {
      this.startedAt = null
      this.#bookmark = cursor
    }
    this.flush()
  }

  /** Called periodically: ends an expired or slow stream, and sends a ping if the stream was idle. */
  tick(pingMs: number, isStale: boolean): void {
    const now = this.#clock.monotonicMs()
    if (this.#blockedSinceMs !== null && now - this.#blockedSinceMs > this.#options.limits.slowMs) this.end('slow', 0)
    else if (now >= this.#options.endsAtMs) this.end(this.#options.endsAs, 0)
    else if (this.#blockedSinceMs === null && now - this.#lastWriteMs >= pingMs)
      this.#send(toWireFrame({ type: 'ping', t: this.#clock.now(), stale: isStale }))
  }

  getIdleMs(): number {
    return this.#clock.monotonicMs() - this.#lastWriteMs
  }

  isPollOver(): boolean {
    return this.#options.pollEndsAtMs !== null && this.#clock.monotonicMs() >= this.#options.pollEndsAtMs
  }

  /** Writes the queued frames, then a bookmark, then `bye`: the client resumes from that bookmark at another broker. */
  drain(cursor: string, at: DatabaseSnapshot, retryAfterMs: number): void {
    this.#drainRetryMs = retryAfterMs
    this.bookmark(cursor, at)
    const hasQueued = this.#bookmark !== null || this.#queue.size > 0
    if (this.state !== 'closed' && !hasQueued) this.end('drain', retryAfterMs)
  }

  /** Closes a half-open connection without a `bye` frame. */
  destroy(): void {
    this.#response.destroy()
    this.#finish('gone')
  }

  end(reason: ByeReason, retryAfterMs: number): void {
    if (this.state === 'closed') return
    this.#send(toWireFrame({ type: 'bye', reason, retry_after_ms: Math.round(retryAfterMs), cursor: this.#sentCursor }))
    this.#response.end()
    // A client that does not read would hold the socket forever, and buffered frames must not reach a revoked PAK.
    if (reason === 'slow' || (reason === 'revoked' && this.#blockedSinceMs !== null)) this.#response.destroy()
    else if (reason === 'revoked') this.#response.socket?.destroySoon()
    this.#finish(reason)
  }

  /** Releases memory when the stream ends. */
  protected release(): void {
    this.#queue.clear()
    this.#queuedBytes = 0
  }

  /** Writes queued frames, then the queued bookmark, until the socket is full. */
  flush(): void {
    while (this.#blockedSinceMs === null && this.state !== 'closed') {
      const frames = this.#takeFrames()
      const cursor = this.#queue.size === 0 ? this.#bookmark : null
      if (cursor !== null) frames.push(getBookmarkFrame(cursor))
      if (frames.length === 0) return
      this.#sendAll(frames)
      if (cursor !== null) this.#onBookmarkSent(cursor)
    }
  }

  /** Removes the oldest frames from the queue, up to the size of one write. */
  #takeFrames(): WireFrame[] {
    const frames: WireFrame[] = []
    let bytes = 0
    for (const [key, frame] of this.#queue) {
      this.#queue.delete(key)
      frames.push(frame)
      bytes += frame.line.length
      if (bytes >= writeBytes) break
    }
    this.#queuedBytes -= bytes
    return frames
  }

  #onBookmarkSent(cursor: string): void {
    this.#bookmark = null
    this.#sentCursor = cursor
    if (this.#drainRetryMs !== null) this.end('drain', this.#drainRetryMs)
    if (this.#options.pollEndsAtMs === null || !(this.#hasChanges || this.isPollOver())) return
    this.#response.end()
    this.#finish('polled')
  }

  #acceptsBookmark(cursor: string, at: DatabaseSnapshot): boolean {
    if (this.state !== 'live') return false
    if (this.startedAt !== null && !covers(at, this.startedAt)) return false
    return this.#sentCursor !== cursor || this.isPollOver()
  }

  #isFull(): boolean {
    const { queueKeys, queueBytes } = this.#options.limits
    return this.#queue.size > queueKeys || this.#queuedBytes > queueBytes
  }

  #sendAll(frames: readonly WireFrame[]): void {
    this.#lastWriteMs = this.#clock.monotonicMs()
    for (const frame of frames) this.#options.onFrame(frame.type)
    if (!this.#writer.write(frames)) this.#blockedSinceMs ??= this.#lastWriteMs
  }

  #send(frame: WireFrame): boolean {
    if (this.state === 'closed') return false
    this.#lastWriteMs = this.#clock.monotonicMs()
    this.#options.onFrame(frame.type)
    const hasRoom = this.#response.write(encodeFrame(this.#options.format, frame))
    if (!hasRoom) this.#blockedSinceMs ??= this.#lastWriteMs
    return hasRoom
  }

  #onDrain(): void {
    this.#blockedSinceMs = null
    this.flush()
  }

  #waitForDrain(): Promise<void> {
    return new Promise((resolve) => {
      const done = () => {
        this.#response.off('drain', done)
        this.#response.off('close', done)
        resolve()
      }
      this.#response.on('drain', done)
      this.#response.on('close', done)
    })
  }

  #finish(reason: CloseReason): void {
    if (this.state === 'closed') return
    this.state = 'closed'
    this.#writer.detach()
    this.release()
    this.#options.onClosed(reason)
  }
}
