// Disconnects a client that stopped reading its response. Only bytes that leave the socket count as progress. They are visible per write,
// so long bodies are written in slices.
import type { ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Clock } from '@brokkr/runtime/clock.ts'

export interface StallDeps {
  readonly clock: Clock
  /** Time without progress before the client is disconnected. */
  readonly stallMs: number
}

/** Call after the response was written, or before its first page is. */
export function disconnectStalledClient({ clock, stallMs }: StallDeps, response: ServerResponse): void {
  // The client disconnected already; no event would cancel the timer.
  if (response.closed) return
  let progress = { bytes: bytesSentBy(response.socket), atMs: clock.monotonicMs() }
  const check = (): void => {
    const [bytes, nowMs] = [bytesSentBy(response.socket), clock.monotonicMs()]
    // A pipelined response has no socket yet; the response before it is watched.
    const isWaiting = response.socket !== null && response.socket.writableLength > 0
    if (!isWaiting || bytes !== progress.bytes) progress = { bytes, atMs: nowMs }
    else if (nowMs - progress.atMs >= stallMs) return void response.destroy()
    timer = clock.setTimer(stallMs / 4, check)
  }
  let timer = clock.setTimer(stallMs / 4, check)
  response.once('close', () => timer.cancel())
}

/** Most responses have left the socket already. One that is written in slices has not ended and may have no slice queued. */
export function disconnectUnreadClient(deps: StallDeps, response: ServerResponse): void {
  if (!response.writableEnded || response.socket?.writableLength !== 0) disconnectStalledClient(deps, response)
}

/** Bytes accepted by the operating system: bytes written minus bytes queued. */
const bytesSentBy = (socket: Socket | null): number => (socket === null ? 0 : socket.bytesWritten - socket.writableLength)

export const sliceBytes = 64 * 1024

export function* slicesOf(body: Buffer): Generator<Buffer> {
  for (let at = 0; at < body.length; at += sliceBytes) yield body.subarray(at, at + sliceBytes)
}
