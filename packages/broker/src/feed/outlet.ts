// The way out of a stream: what leaves in one moment is one chunk of the HTTP answer, written straight to its socket. Streams that
// say the same (one stack, many agents) share one buffer: it is framed once, and each of them costs a write and nothing else.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { type Form, inForm } from './form.ts'
import type { WireFrame } from './frames.ts'

export class Outlet {
  readonly #response: ServerResponse
  readonly #form: Form
  readonly #drained: () => void
  #socket: Socket | null = null

  constructor(response: ServerResponse, form: Form, drained: () => void) {
    this.#response = response
    this.#form = form
    this.#drained = drained
    response.on('drain', drained)
  }

  /** False: the socket is full, `drained` tells when it has room again. The head of the answer must have been written. */
  write(frames: readonly WireFrame[]): boolean {
    const { socket, chunkedEncoding } = this.#response
    // Behind another answer on the same connection there is no socket yet; http keeps what comes before its turn.
    if (socket === null) return this.#response.write(bytesOf(this.#form, frames, false))
    this.#listen(socket)
    return socket.write(bytesOf(this.#form, frames, chunkedEncoding))
  }

  /** The connection may serve other requests after this answer. */
  forget(): void {
    this.#socket?.off('drain', this.#drained)
    this.#socket = null
  }

  #listen(socket: Socket): void {
    if (this.#socket === socket) return
    this.#socket = socket
    socket.on('drain', this.#drained)
  }
}

let last: { form: Form; frames: readonly WireFrame[]; isChunk: boolean; bytes: Buffer } | null = null

/** The streams of one stack ask for the same bytes one after the other, so the last answer is worth keeping. */
function bytesOf(form: Form, frames: readonly WireFrame[], isChunk: boolean): Buffer {
  if (last !== null && last.form === form && last.isChunk === isChunk && areSame(last.frames, frames)) return last.bytes
  const lines = frames.map((frame) => inForm(form, frame))
  const bytes = isChunk ? chunkOf(lines) : Buffer.concat(lines)
  last = { form, frames, isChunk, bytes }
  return bytes
}

function areSame(one: readonly WireFrame[], other: readonly WireFrame[]): boolean {
  return one.length === other.length && one.every((frame, index) => frame === other[index])
}

/** RFC 9112 §7.1: the length in hexadecimal, the bytes, each followed by CR LF. */
function chunkOf(lines: readonly Buffer[]): Buffer {
  const length = lines.reduce((sum, line) => sum + line.length, 0)
  return Buffer.concat([Buffer.from(`${length.toString(16)}\r\n`, 'latin1'), ...lines, lineEnd])
}

const lineEnd = Buffer.from('\r\n')
