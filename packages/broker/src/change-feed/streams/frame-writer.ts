// Writes frames of one stream as one chunk of the HTTP response, directly to its socket. Streams that receive the same frames (one
// stack, many agents) share one buffer: it is encoded once, and each stream costs one write.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { WireFrame } from './frames.ts'

export class FrameWriter {
  readonly #response: ServerResponse
  readonly #format: StreamFormat
  readonly #onDrain: () => void
  #socket: Socket | null = null

  constructor(response: ServerResponse, format: StreamFormat, onDrain: () => void) {
    this.#response = response
    this.#format = format
    this.#onDrain = onDrain
    response.on('drain', onDrain)
  }

  /** Returns false if the socket is full; `onDrain` is called when it has room again. The response head must have been written. */
  write(frames: readonly WireFrame[]): boolean {
    const { socket, chunkedEncoding } = this.#response
    // A response queued behind another one on the same connection has no socket yet; Node buffers its bytes.
    if (socket === null) return this.#response.write(encodeFrames(this.#format, frames, false))
    this.#listen(socket)
    return socket.write(encodeFrames(this.#format, frames, chunkedEncoding))
  }

  /** Removes the listener: after a long poll the connection may serve other requests. */
  detach(): void {
    this.#socket?.off('drain', this.#onDrain)
    this.#socket = null
  }

  #listen(socket: Socket): void {
    if (this.#socket === socket) return
    this.#socket = socket
    socket.on('drain', this.#onDrain)
  }
}

let lastEncoding: { format: StreamFormat; frames: readonly WireFrame[]; isChunk: boolean; bytes: Buffer } | null = null

/** Caches the last encoding, because the streams of one stack write the same frames one after the other. */
function encodeFrames(format: StreamFormat, frames: readonly WireFrame[], isChunk: boolean): Buffer {
  const last = lastEncoding
  if (last !== null && last.format === format && last.isChunk === isChunk && areSame(last.frames, frames)) return last.bytes
  const lines = frames.map((frame) => encodeFrame(format, frame))
  const bytes = isChunk ? toChunk(lines) : Buffer.concat(lines)
  lastEncoding = { format, frames, isChunk, bytes }
  return bytes
}

function areSame(one: readonly WireFrame[], other: readonly WireFrame[]): boolean {
  return one.length === other.length && one.every((frame, index) => frame === other[index])
}

/** RFC 9112 §7.1: the length in hexadecimal, the bytes, each followed by CR LF. */
function toChunk(lines: readonly Buffer[]): Buffer {
  const length = lines.reduce((sum, line) => sum + line.length, 0)
  return Buffer.concat([Buffer.from(`${length.toString(16)}\r\n`, 'latin1'), ...lines, lineEnd])
}

const lineEnd = Buffer.from('\r\n')

// Encodes frames for the wire: one JSON object per line, or server-sent events. A frame is serialized once as a line; the event is
// built from that line.

export type StreamFormat = 'ndjson' | 'sse'

export const contentTypes: Record<StreamFormat, string> = { ndjson: 'application/x-ndjson', sse: 'text/event-stream' }

/** Chooses the format by the Accept header. */
export function parseStreamFormat(accept: string | undefined, fallback: StreamFormat = 'ndjson'): StreamFormat {
  if (/\btext\/event-stream\b/.test(accept ?? '')) return 'sse'
  return /\bapplication\/x-ndjson\b/.test(accept ?? '') ? 'ndjson' : fallback
}

/** `{"type":"bookmark","cursor":"…"}` → `event:`, `id:` if the frame has a cursor, `data:`. */
export function encodeFrame(format: StreamFormat, { type, line }: WireFrame): Buffer {
  if (format === 'ndjson') return line
  return Buffer.concat([Buffer.from(`event: ${type}\n${buildIdLine(type, line)}data: `), line, newline])
}

/** First line of an event stream: the reconnect delay of browsers. */
export const sseRetry = Buffer.from('retry: 3000\n\n')

const newline = Buffer.from('\n')
const typesWithCursor: ReadonlySet<string> = new Set(['bookmark', 'snapshot_end', 'bye'])

function buildIdLine(type: string, line: Buffer): string {
  if (!typesWithCursor.has(type)) return ''
  const { cursor } = JSON.parse(line.toString('utf8')) as { cursor: string | null }
  return cursor === null ? '' : `id: ${cursor}\n`
}
