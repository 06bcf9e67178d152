// A receiver of webhooks on loopback: keeps what it was sent and answers as a test wants.
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface Received {
  readonly path: string
  readonly method: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
}
export interface Receiver {
  readonly url: string
  readonly received: Received[]
  /** Connections that were ever made. */
  readonly connections: number
  /** What it answers from now on; by default 200 and ok. An answer that is never ended hangs. */
  answer: (response: ServerResponse, request: Received) => void
  close(): Promise<void>
}

export async function startReceiver(): Promise<Receiver> {
  const received: Received[] = []
  let connections = 0
  const receiver = { answer: (response: ServerResponse) => void response.end('ok') } as { answer: Receiver['answer'] }
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request
      .on('data', (chunk: Buffer) => chunks.push(chunk))
      .once('end', () => {
        const { url: path = '', method = '', headers } = request
        const one = { path, method, headers, body: Buffer.concat(chunks).toString() }
        received.push(one)
        receiver.answer(response, one)
      })
  })
  server.on('connection', () => (connections += 1))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return Object.assign(receiver, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    received,
    get connections() {
      return connections
    },
    close: () => {
      server.closeAllConnections()
      return new Promise<void>((resolve) => server.close(() => resolve()))
    },
  })
}

/** What a broker needs to send to it. */
export const loopbackAllowed = { BROKKR__BROKER__WEBHOOK_ALLOWED_CIDRS: '127.0.0.1' }
