// A WebSocket client that collects frames, for tests.
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { WebSocket } from 'ws'

export interface Frame {
  readonly type: string
  readonly body: Readonly<Record<string, unknown>>
}
export interface TestSocket {
  readonly ws: WebSocket
  readonly frames: Frame[]
  /** Close code, once closed. */
  readonly closed: Promise<number>
  send(type: string, body: object): void
  waitForFrame(what: string, matches: (frame: Frame) => boolean): Promise<Frame>
  close(): Promise<void>
}
export interface OpenOptions {
  readonly pak?: string | undefined
  readonly protocols?: string[]
  readonly headers?: Record<string, string>
}

const create = (broker: { url: string }, path: string, { pak, protocols = [], headers = {} }: OpenOptions): WebSocket =>
  new WebSocket(`${broker.url.replace('http', 'ws')}${path}`, protocols, {
    headers: { ...(pak === undefined ? {} : { authorization: `Bearer ${pak}` }), ...headers },
  })

export async function openSocket(broker: { url: string }, path: string, options: OpenOptions = {}): Promise<TestSocket> {
  const ws = create(broker, path, options)
  const frames: Frame[] = []
  ws.on('message', (data: Buffer) => frames.push(JSON.parse(data.toString()) as Frame))
  const closing = Promise.withResolvers<number>()
  ws.once('close', (code) => closing.resolve(code))
  const opening = Promise.withResolvers<void>()
  ws.once('open', () => opening.resolve())
  ws.on('error', (error) => opening.reject(error))
  await opening.promise
  return {
    ws,
    frames,
    closed: closing.promise,
    send: (type, body) => ws.send(JSON.stringify({ type, body })),
    waitForFrame: (what, matches) =>
      waitFor(what, () => frames.find(matches), { limitMs: 60_000, onTimeout: () => JSON.stringify(frames.slice(-20)) }),
    close: async () => {
      ws.close()
      await closing.promise
    },
  }
}

/** Status of a handshake; 101 if the socket opened. */
export function readHandshake(
  broker: { url: string },
  path: string,
  options: OpenOptions = {},
): Promise<{ status: number; protocol: string }> {
  const { promise, resolve } = Promise.withResolvers<{ status: number; protocol: string }>()
  const ws = create(broker, path, options)
  ws.once('open', () => {
    resolve({ status: 101, protocol: ws.protocol })
    ws.close()
  })
  ws.once('unexpected-response', (request, response) => {
    resolve({ status: response.statusCode ?? 0, protocol: '' })
    request.destroy()
  })
  ws.on('error', () => undefined)
  return promise
}
