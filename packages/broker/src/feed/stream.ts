// One follower's connection: a queue that keeps the latest frame per key, back-pressure, bookmarks that wait for the frames
// they cover, pings, and an end with a reason. It knows bytes, not the database.
import type { ServerResponse } from 'node:http'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { covers, type Snapshot } from './cursor.ts'
import { contentTypes, type Form, inForm, sseRetry } from './form.ts'
import { bookmarkFrame, type WireFrame, wireFrame } from './frames.ts'
import { Outlet } from './outlet.ts'
import { announceSole, letParserGo } from './sole-answer.ts'

export type ByeReason = 'drain' | 'lifetime' | 'slow' | 'revoked' | 'epoch' | 'stale' | 'overloaded'
export type CloseReason = ByeReason | 'gone' | 'polled'
export interface StreamLimits {
  readonly queueKeys: number
  readonly queueBytes: number
  readonly slowMs: number
}
export interface StreamOptions {
  readonly form: Form
  /** When it ends by itself, by the monotonic clock, and what it says then. */
  readonly endsAtMs: number
  readonly endsAs: 'lifetime' | 'revoked'
  /** A long poll: ends with the first bookmark that follows news, or with a bookmark when its time is up. */
  readonly pollEndsAtMs: number | null
  readonly limits: StreamLimits
  readonly onFrame: (type: string) => void
  readonly onClosed: (reason: CloseReason) => void
}

/** One write at most, but for the frame that goes over it. */
const writeBytes = 64 * 1024

export class FrameStream {
  state: 'starting' | 'live' | 'closed' = 'starting'
  /** The snapshot the stream started from; no bookmark older than it may be sent. */
  startedAt: Snapshot | null = null
  readonly openedAtMs: number
  readonly #response: ServerResponse
  readonly #outlet: Outlet
  readonly #clock: Clock
  readonly #options: StreamOptions
  readonly #queue = new Map<string, WireFrame>()
  #queuedBytes = 0
  #bookmark: string | null = null
  #written: string | null = null
  #hasNews = false
  /** Set when the stream shall end with its next bookmark: how long the follower should wait. */
  #endsWithRetryMs: number | null = null
  #lastWriteMs: number
  #blockedSinceMs: number | null = null

  constructor(response: ServerResponse, clock: Clock, options: StreamOptions) {
    this.#response = response
    this.#outlet = new Outlet(response, options.form, () => this.#drained())
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

  /** The head of the answer and hello, which is no news to a poller. */
  greet(hello: WireFrame): void {
    const { form, pollEndsAtMs } = this.#options
    if (pollEndsAtMs === null) announceSole(this.#response)
    this.#response.writeHead(200, {
      'content-type': contentTypes[form],
      'cache-control': 'no-store, no-transform',
      'x-accel-buffering': 'no',
    })
    this.#response.socket?.setNoDelay(true)
    if (form === 'sse') this.#response.write(sseRetry)
    this.#send(hello)
    if (pollEndsAtMs === null) letParserGo(this.#response)
  }

  /** Writes at once, ahead of the queue, and waits while the socket is full: for the frames of a start. */
  async write(frame: WireFrame): Promise<void> {
    this.#hasNews = true
    if (!this.#send(frame) && this.state !== 'closed') await this.#untilDrained()
  }

  /**
   * The latest frame of a key wins; a key that was queued moves to the end, so that frames keep the order of their loads. What is
   * queued leaves with the bookmark that follows it (or with `flush`): frames of one moment are one write.
   */
  queue(key: string, frame: WireFrame): void {
    if (this.state === 'closed') return
    this.#hasNews = true
    this.#queuedBytes += frame.line.length - (this.#queue.get(key)?.line.length ?? 0)
    this.#queue.delete(key)
    this.#queue.set(key, frame)
    if (!this.#isFull()) return
    this.flush()
    if (this.#isFull()) this.end('slow', 0)
  }

  /** Offers a cursor; it is written when everything queued before it has been written. */
  bookmark(cursor: string, at: Snapshot): void {
    if (this.#takes(cursor, at)) {
      this.startedAt = null
      this.#bookmark = cursor
    }
    this.flush()
  }

  /** Called now and then: ends what is over or slow, says that we are here when nothing was written for a while. */
  tick(pingMs: number, isStale: boolean): void {
    const now = this.#clock.monotonicMs()
    if (this.#blockedSinceMs !== null && now - this.#blockedSinceMs > this.#options.limits.slowMs) this.end('slow', 0)
    else if (now >= this.#options.endsAtMs) this.end(this.#options.endsAs, 0)
    else if (this.#blockedSinceMs === null && now - this.#lastWriteMs >= pingMs)
      this.#send(wireFrame({ type: 'ping', t: this.#clock.now(), stale: isStale }))
  }

  idleMs(): number {
    return this.#clock.monotonicMs() - this.#lastWriteMs
  }

  isPollOver(): boolean {
    return this.#options.pollEndsAtMs !== null && this.#clock.monotonicMs() >= this.#options.pollEndsAtMs
  }

  /** What is queued is written first, then a bookmark, then the bye: whoever comes back elsewhere resumes right there. */
  drain(cursor: string, at: Snapshot, retryAfterMs: number): void {
    this.#endsWithRetryMs = retryAfterMs
    this.bookmark(cursor, at)
    const hasWaiting = this.#bookmark !== null || this.#queue.size > 0
    if (this.state !== 'closed' && !hasWaiting) this.end('drain', retryAfterMs)
  }

  /** The far end is not there any more: no word would arrive. */
  abandon(): void {
    this.#response.destroy()
    this.#finish('gone')
  }

  end(reason: ByeReason, retryAfterMs: number): void {
    if (this.state === 'closed') return
    this.#send(wireFrame({ type: 'bye', reason, retry_after_ms: Math.round(retryAfterMs), cursor: this.#written }))
    this.#response.end()
    // A peer that does not read would hold the socket for ever, and what waits for it must not flow under a dead key.
    if (reason === 'slow' || (reason === 'revoked' && this.#blockedSinceMs !== null)) this.#response.destroy()
    else if (reason === 'revoked') this.#response.socket?.destroySoon()
    this.#finish(reason)
  }

  /** What a kind of stream forgets when it ends. */
  protected forget(): void {
    this.#queue.clear()
    this.#queuedBytes = 0
  }

  /** Writes what is queued, and the bookmark that waits for it, as far as the socket takes it. */
  flush(): void {
    while (this.#blockedSinceMs === null && this.state !== 'closed') {
      const frames = this.#takeFrames()
      const cursor = this.#queue.size === 0 ? this.#bookmark : null
      if (cursor !== null) frames.push(bookmarkFrame(cursor))
      if (frames.length === 0) return
      this.#sendAll(frames)
      if (cursor !== null) this.#bookmarked(cursor)
    }
  }

  /** The oldest of the queue, as many as make a good write. */
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

  #bookmarked(cursor: string): void {
    this.#bookmark = null
    this.#written = cursor
    if (this.#endsWithRetryMs !== null) this.end('drain', this.#endsWithRetryMs)
    if (this.#options.pollEndsAtMs === null || !(this.#hasNews || this.isPollOver())) return
    this.#response.end()
    this.#finish('polled')
  }

  #takes(cursor: string, at: Snapshot): boolean {
    if (this.state !== 'live') return false
    if (this.startedAt !== null && !covers(at, this.startedAt)) return false
    return this.#written !== cursor || this.isPollOver()
  }

  #isFull(): boolean {
    const { queueKeys, queueBytes } = this.#options.limits
    return this.#queue.size > queueKeys || this.#queuedBytes > queueBytes
  }

  #sendAll(frames: readonly WireFrame[]): void {
    this.#lastWriteMs = this.#clock.monotonicMs()
    for (const frame of frames) this.#options.onFrame(frame.type)
    if (!this.#outlet.write(frames)) this.#blockedSinceMs ??= this.#lastWriteMs
  }

  #send(frame: WireFrame): boolean {
    if (this.state === 'closed') return false
    this.#lastWriteMs = this.#clock.monotonicMs()
    this.#options.onFrame(frame.type)
    const hasRoom = this.#response.write(inForm(this.#options.form, frame))
    if (!hasRoom) this.#blockedSinceMs ??= this.#lastWriteMs
    return hasRoom
  }

  #drained(): void {
    this.#blockedSinceMs = null
    this.flush()
  }

  #untilDrained(): Promise<void> {
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
    this.#outlet.forget()
    this.forget()
    this.#options.onClosed(reason)
  }
}
