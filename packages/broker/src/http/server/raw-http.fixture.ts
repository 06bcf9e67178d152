// A socket that speaks whatever text it is given: for requests no HTTP client would send.
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

export interface RawConnection {
  readonly socket: Socket
  /** Everything received so far. */
  readonly received: () => string
  send(text: string | Uint8Array): void
  /** Resolves as soon as the text received so far fits. */
  until(pattern: RegExp): Promise<string>
  readonly closed: Promise<void>
}

const stallMs = 15_000

/** `from`: another address of this machine to call from. */
export async function openRaw(port: number, from?: string): Promise<RawConnection> {
  const socket = connect({ port, host: '127.0.0.1', ...(from === undefined ? {} : { localAddress: from }) })
  let text = ''
  const closed = Promise.withResolvers<void>()
  socket.setEncoding('latin1').on('data', (chunk: string) => void (text += chunk))
  // A peer that resets while we still send is one of the things looked at.
  socket.on('error', () => socket.destroy()).once('close', () => closed.resolve())
  await new Promise<void>((resolve, reject) => void socket.once('connect', resolve).once('error', reject))
  const until = async (pattern: RegExp) => {
    const startedMs = performance.now()
    while (!pattern.test(text)) {
      if (performance.now() - startedMs > stallMs || socket.destroyed)
        throw new Error(`waited for ${pattern}, got ${JSON.stringify(text.slice(0, 2000))}`)
      await sleep(5)
    }
    return text
  }
  return { socket, received: () => text, send: (part) => void socket.write(part), until, closed: closed.promise }
}

/** Sends, waits until the other side closes, returns all it said. */
export async function askRaw(port: number, text: string): Promise<string> {
  const connection = await openRaw(port)
  connection.send(text)
  await connection.closed
  return connection.received()
}

export const statusLines = (text: string): string[] => text.match(/HTTP\/1\.1 \d{3}/g) ?? []
