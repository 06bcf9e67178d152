// One WebSocket of a client: two bounded outbound lanes, pings, and the end of silent or stalled connections. Frames of the control lane
// are sent first. A full lane drops frames; once it has room again, one frame announces how many were dropped.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { WebSocket } from 'ws'

export type Lane = 'control' | 'telemetry'
export interface ConnectionLimits {
  readonly laneFrames: Readonly<Record<Lane, number>>
  readonly pingMs: number
  readonly deadMs: number
}
export interface ConnectionOptions {
  readonly clock: Clock
  readonly limits: ConnectionLimits
  /** The frame that announces dropped frames of a lane. */
  readonly buildGap: (lane: Lane, dropped: { readonly count: number; readonly since: string }) => string
  readonly onSent: (type: string) => void
  readonly onDropped: (lane: Lane) => void
  readonly onClosed: () => void
}
interface Frame {
  readonly type: string
  readonly text: string
}

/** Characters of the frames that wait in a lane; one larger frame may wait alone. */
const laneCharsMax = 4 * 1024 * 1024
/** Bytes handed to the socket before the rest waits in the lanes. */
const bufferedBytesMax = 64 * 1024

export class SocketConnection {
  readonly #ws: WebSocket
  readonly #options: ConnectionOptions
  readonly #lanes: Record<Lane, Frame[]> = { control: [], telemetry: [] }
  readonly #laneChars: Record<Lane, number> = { control: 0, telemetry: 0 }
  readonly #dropped: Record<Lane, { count: number; since: string } | null> = { control: null, telemetry: null }
  #heardMs: number
  #pingedMs: number
  #progressMs: number
  #isPaused = false
  #isClosed = false
  messagesIn = 0
  messagesOut = 0

  constructor(ws: WebSocket, options: ConnectionOptions) {
    this.#ws = ws
    this.#options = options
    this.#heardMs = this.#pingedMs = this.#progressMs = options.clock.monotonicMs()
    const heard = () => {
      this.#heardMs = options.clock.monotonicMs()
    }
    ws.on('pong', heard)
    ws.on('ping', heard)
    ws.on('message', heard)
    // `close` follows; without a listener the error would end the process.
    ws.on('error', () => undefined)
    ws.once('close', () => this.#release())
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** `lines`: how many lines the frame stands for, if it is dropped. */
  send(lane: Lane, type: string, text: string, lines = 1): void {
    if (this.#isClosed) return
    const queue = this.#lanes[lane]
    const isOverChars = queue.length > 0 && this.#laneChars[lane] + text.length > laneCharsMax
    if (queue.length >= this.#options.limits.laneFrames[lane] || isOverChars) {
      const since = this.#dropped[lane]?.since ?? new Date(this.#options.clock.now()).toISOString()
      this.#dropped[lane] = { since, count: (this.#dropped[lane]?.count ?? 0) + lines }
      this.#options.onDropped(lane)
      return
    }
    this.#announceGap(lane)
    this.#push(lane, { type, text })
    this.#pump()
  }

  /** Without a code the client sees 1005. A client that does not answer the close is disconnected by the caller's next tick. */
  close(code?: number): void {
    if (code === undefined) this.#ws.close()
    else this.#ws.close(code)
    this.#countPause()
    this.#heardMs = Math.min(this.#heardMs, this.#options.clock.monotonicMs() - this.#options.limits.deadMs + closeGraceMs)
  }

  terminate(): void {
    this.#ws.terminate()
  }

  /** Stops reading; until `resume` or `close` the client does not count as silent. */
  pause(): void {
    if (this.#ws.readyState === this.#ws.OPEN) this.#isPaused = true
    this.#ws.pause()
  }

  resume(): void {
    this.#countPause()
    this.#ws.resume()
  }

  /** Pings an idle client. Returns the reason if the connection was ended. */
  tick(): 'silent' | 'stalled' | null {
    const nowMs = this.#options.clock.monotonicMs()
    const { pingMs, deadMs } = this.#options.limits
    if (this.#ws.bufferedAmount === 0) this.#progressMs = nowMs
    const isStalled = this.#ws.bufferedAmount > 0 && nowMs - this.#progressMs > deadMs
    const isSilent = !this.#isPaused && nowMs - this.#heardMs > deadMs
    if (isSilent || isStalled) {
      this.terminate()
      return isStalled ? 'stalled' : 'silent'
    }
    if (nowMs - this.#pingedMs >= pingMs && this.#ws.readyState === this.#ws.OPEN) {
      this.#pingedMs = nowMs
      this.#ws.ping()
    }
    return null
  }

  /** The client may have sent frames that were not read. */
  #countPause(): void {
    if (this.#isPaused) this.#heardMs = this.#options.clock.monotonicMs()
    this.#isPaused = false
  }

  #announceGap(lane: Lane): void {
    const dropped = this.#dropped[lane]
    if (dropped === null) return
    this.#dropped[lane] = null
    this.#push(lane, { type: 'gap', text: this.#options.buildGap(lane, dropped) })
  }

  #push(lane: Lane, frame: Frame): void {
    this.#lanes[lane].push(frame)
    this.#laneChars[lane] += frame.text.length
  }

  #shift(lane: Lane): Frame | undefined {
    const frame = this.#lanes[lane].shift()
    this.#laneChars[lane] -= frame?.text.length ?? 0
    return frame
  }

  #pump(): void {
    while (this.#ws.readyState === this.#ws.OPEN && this.#ws.bufferedAmount < bufferedBytesMax) {
      const frame = this.#shift('control') ?? this.#shift('telemetry') ?? this.#takeGap()
      if (frame === undefined) return
      this.messagesOut += 1
      this.#options.onSent(frame.type)
      // From here on the client has time to read.
      if (this.#ws.bufferedAmount === 0) this.#progressMs = this.#options.clock.monotonicMs()
      this.#ws.send(frame.text, () => {
        this.#progressMs = this.#options.clock.monotonicMs()
        this.#pump()
      })
    }
  }

  /** Both lanes are empty: announces what was dropped, although no further frame came. */
  #takeGap(): Frame | undefined {
    for (const lane of ['control', 'telemetry'] as const) {
      this.#announceGap(lane)
      const frame = this.#shift(lane)
      if (frame !== undefined) return frame
    }
    return undefined
  }

  #release(): void {
    this.#isClosed = true
    this.#lanes.control.length = 0
    this.#lanes.telemetry.length = 0
    this.#laneChars.control = this.#laneChars.telemetry = 0
    this.#options.onClosed()
  }
}

/** Time for a client to answer a close. */
const closeGraceMs = 5_000
